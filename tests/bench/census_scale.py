"""What one look of the census costs beside a million sagas, in the states that are dearest.

Run it: `python -m tests.bench.census_scale [sagas]`. Milliseconds of CPU of the Postgres backend,
the mean of some looks: whatever else the machine does is not in them. Asserts nothing.
"""

import asyncio
import json
import secrets
import sys
from collections.abc import Mapping

import asyncpg
from tests.bench.reconciler_scale import COPIES
from tests.bench.relay_rate import cpu_s
from tests.bench.report import keep
from tests.integration.orchestrator.support import Rig, open_rig, order, prepare

from sagabus_orchestrator.bulk.selection import SQL as BULK
from sagabus_orchestrator.census import BOUND
from sagabus_orchestrator.census import SQL as CENSUS
from sagabus_orchestrator.holds import SQL as HOLDS
from sagabus_orchestrator.recovery import SQL as RECOVERY
from sagabus_store import Queries
from sagabus_testkit import LocalStack

LETTERS = Queries("sagabus_orchestrator", "sql/dead_letters.sql")
LOOKS = 20
FIRST = "00000000-0000-0000-0000-000000000000"
HOLD = "insert into hold (id, target, name, actor, reason) values ($1, 'workflow', 'order', '', '')"
LOOKED: Mapping[str, tuple[str, tuple[object, ...]]] = {
    "manual": (CENSUS["manual_sagas"], (BOUND,)),
    "standing": (CENSUS["standing"], (BOUND,)),
    "released": (HOLDS["released_sagas"], (BOUND,)),
    "let_go": (HOLDS["let_go"], (FIRST, 50, [])),
    "early": (RECOVERY["count_early"], ()),
    "letters": (LETTERS["open_letters"], (BOUND,)),
    "list_holds": (HOLDS["list_holds"], ()),
    "bulks": (BULK["waiting_bulks"], ()),
}
STATES: Mapping[str, str] = {
    "overdue": "select 1",
    "held": "insert into held_saga select h.id, s.id, now() from hold h, saga s",
    "released": "update hold set released_at = now(), released_by = '', release_reason = ''",
    "manual": "update saga set status = 'MANUAL_INTERVENTION', armed_at_ms = null",
}
"""How all sagas come into each state, one after the other; as filled they are overdue."""


async def fill(rig: Rig, sagas: int) -> None:
    await rig.publish(order())
    await rig.process(rig.start_record())
    await rig.run("update saga set armed_at_ms = 1")
    async with rig.database.connection() as conn:
        await conn.execute("set synchronous_commit = off")
        for part in range(0, sagas, 50_000):
            await conn.execute(COPIES, min(50_000, sagas - part), timeout=600)
        await conn.execute(HOLD, "00000000-0000-0000-0000-000000000007")


async def look(conn: asyncpg.Connection) -> dict[str, float]:
    """Return the CPU of each statement."""
    told = {}
    for name, (statement, arguments) in LOOKED.items():
        prepared = await conn.prepare(statement)
        await prepared.fetch(*arguments)  # warm
        before = cpu_s(conn.get_server_pid())
        for _ in range(LOOKS):
            await prepared.fetch(*arguments)
        told[name] = round((cpu_s(conn.get_server_pid()) - before) / LOOKS * 1000, 1)
    return told


async def main(stack: LocalStack, sagas: int) -> dict[str, object]:
    dsn = stack.postgres.create_database(f"census_{secrets.token_hex(3)}")
    await prepare(dsn)
    rig = await open_rig(dsn)
    conn = await asyncpg.connect(dsn)
    try:
        await fill(rig, sagas)
        # As the service connects, see `app.py`.
        for setting in ("enable_seqscan = off", "jit = off"):
            await conn.execute(f"set {setting}")
        found: dict[str, object] = {}
        for state, change in STATES.items():
            await conn.execute(change, timeout=600)
            for table in ("saga", "held_saga", "hold"):
                await conn.execute(f"analyze {table}", timeout=600)
            found[state] = await look(conn)
            print(state, json.dumps(found[state]), flush=True)  # noqa: T201 - minutes pass
        return found
    finally:
        await conn.close()
        await rig.database.close()


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with LocalStack("census-scale") as opened:
        opened.start()
        keep({"census_cpu_ms": asyncio.run(main(opened, wanted))})
