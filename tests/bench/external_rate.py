"""What a command of an external step costs: statements, CPU, and how many are handled a second.

Run it: `python -m tests.bench.external_rate [commands] [milliseconds per call]`. The calls wait so
long and do nothing else; everything runs on real Kafka and Postgres. Asserts nothing. The floor is
the rate at which the calls alone could go, as many at once as the service allows.
"""

import gc
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time

import asyncpg
import uvloop
from tests.bench.gauges import cpu_of_server, cpu_s
from tests.bench.participant_rate import BATCH, NAME, STEP, Book, answered, commands
from tests.bench.pausing import pause
from tests.bench.report import beside, keep

from sagabus_bus import KafkaConnection, Publisher, TopicAdmin
from sagabus_messages import Topics
from sagabus_participant import (
    COMPONENT,
    Executed,
    ExternalContext,
    ExternalStep,
    Participant,
    ParticipantService,
    ParticipantSettings,
    Resolved,
    StepOptions,
    Succeeded,
    Unknown,
)
from sagabus_runtime.lifecycle import run_service
from sagabus_store import SHARED, migrate
from sagabus_testkit import LocalStack

ROUNDS, CONCURRENCY, LONGEST_S = 3, 32, 60
CALL_MS = "BENCH_CALL_MS"
SPENT = """
select sum(calls)::float8 as statements,
    coalesce(sum(calls) filter (where query ilike 'commit%'), 0)::float8 as transactions
from pg_stat_statements s join pg_database d on d.oid = s.dbid
where d.datname = current_database() and query not ilike 'select count(*) from outbox%'
"""


class CallStep(ExternalStep[Book]):
    """A call that takes its time somewhere else."""

    def __init__(self, call_ms: float) -> None:
        self._call_ms = call_ms

    async def execute(self, ctx: ExternalContext, order: Book) -> Executed:
        del order
        if self._call_ms:
            await pause(self._call_ms / 1000)
        return Succeeded({"booking": ctx.idempotency_key})

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        del ctx
        return Unknown("nobody_knows")


def build(settings: ParticipantSettings) -> ParticipantService:
    participant = Participant(NAME)
    participant.add(STEP, Book, CallStep(float(os.environ[CALL_MS])), StepOptions())
    return ParticipantService(participant, settings)


async def _drain(conn: asyncpg.Connection, pid: int, count: int) -> dict[str, float]:
    """Wait for the answers; return what each command cost since the first was seen."""
    limit = time.perf_counter() + LONGEST_S
    while (first := await answered(conn)) == 0:
        _require(time.perf_counter() < limit)
        await pause(0.02)
    began, own = time.perf_counter(), cpu_s(pid)
    server = sum((await cpu_of_server(conn)).values())
    while (last := await answered(conn)) < count:
        _require(time.perf_counter() < limit)
        await pause(0.1)
    took, done = time.perf_counter() - began, last - first
    spent = sum((await cpu_of_server(conn)).values()) - server
    return {
        "per_s": done / took,
        "participant_cpu_ms": (cpu_s(pid) - own) * 1000 / done,
        "postgres_cpu_ms": spent * 1000 / done,
    }


def _require(in_time: bool) -> None:
    if not in_time:
        raise SystemExit(f"not answered within {LONGEST_S} s: see the log of the service")


async def round_of(stack: LocalStack, count: int, call_ms: float) -> dict[str, float]:
    name = f"bench{secrets.token_hex(3)}"
    dsn, topics = stack.postgres.create_database(name), Topics(f"{name}.")
    await migrate(dsn, [SHARED, COMPONENT])
    connection = KafkaConnection(stack.kafka.bootstrap, NAME)
    async with TopicAdmin(connection) as admin:
        await admin.ensure(topics.catalogue([NAME], 3))
    publisher = Publisher(connection)
    for first in range(0, count, BATCH):
        await publisher.publish(commands(topics.command(NAME), first, BATCH, 0))
    await publisher.close()
    conn = await asyncpg.connect(dsn)
    await conn.execute("create extension if not exists pg_stat_statements")
    await conn.execute("select pg_stat_statements_reset()")
    environment = {
        "SAGABUS_KAFKA": stack.kafka.bootstrap, "SAGABUS_POSTGRES": dsn,
        "SAGABUS_TOPIC_PREFIX": f"{name}.", CALL_MS: str(call_ms),
        "SAGABUS_WORKER_CONCURRENCY": str(CONCURRENCY),
    }  # fmt: skip
    with tempfile.TemporaryFile() as log:
        service = subprocess.Popen(  # noqa: ASYNC220  (a child that outlives many awaits)
            [sys.executable, "-m", "tests.bench.external_rate", "serve"],
            env={**os.environ, **environment}, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            found = await _drain(conn, service.pid, count)
            spent = await conn.fetchrow(SPENT)
        finally:
            service.terminate()
            service.wait(20)
    await conn.close()
    assert spent is not None
    return {**found, **{what: number / count for what, number in spent.items()}}


async def main(stack: LocalStack, count: int, call_ms: float) -> dict[str, object]:
    rounds = [await round_of(stack, count, call_ms) for _ in range(ROUNDS)]
    found = {what: statistics.median(one[what] for one in rounds) for what in rounds[0]}
    floor = CONCURRENCY * 1000 / call_ms if call_ms else 0.0
    each = {what: round(number, 3) for what, number in found.items() if what != "per_s"}
    return beside(found["per_s"], floor, **each)


def measure(count: int, call_ms: float) -> None:
    """Measure and keep."""
    gc.freeze()
    with LocalStack("external-rate") as stack:
        stack.start()
        keep({f"participant_cps_external_{call_ms:g}_ms": uvloop.run(main(stack, count, call_ms))})


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        sys.exit(run_service(NAME, build, ParticipantSettings))
    numbers = [float(argument) for argument in sys.argv[1:]]
    how_many, how_long = numbers + [3_000, 5][len(numbers) :]
    measure(int(how_many), how_long)
