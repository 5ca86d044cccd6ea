"""How many commands a local participant handles per second, alone, on real Kafka and Postgres.

Run it: `python -m tests.bench.participant_rate [commands] [refused per 100] [many]`, with `many` on
a handler that takes the orders of a transaction at once (`execute_many`). Asserts nothing.
The floor is the handler's own statement, one after the other on one connection in transactions of
500: what no SDK could save.

`python -m tests.bench.participant_rate memory [commands]` prints the resident memory of a batch
handler along 200,000 commands instead, without Kafka.
"""

import gc
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import uvloop
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from tests.bench.pausing import pause
from tests.bench.report import keep

from sagabus_bus import KafkaConnection, Publisher, TopicAdmin
from sagabus_core import ids
from sagabus_core.vocabulary import Phase
from sagabus_messages import Command, OutboxRow, Record, Stamp, Topics, encode, json_payload
from sagabus_participant import (
    COMPONENT,
    CommandBatches,
    ExecutedLocally,
    LocalContext,
    LocalStep,
    Meters,
    Participant,
    ParticipantService,
    ParticipantSettings,
    Rejected,
    Shell,
    Succeeded,
)
from sagabus_runtime.lifecycle import run_service
from sagabus_store import (
    SHARED,
    Connection,
    Database,
    DatabaseOptions,
    InboxWindow,
    inbox,
    migrate,
)
from sagabus_testkit import LocalStack

NAME, STEP, BATCH, ROUNDS = "bench", "book", 500, 3
TABLE = "create table booking (id uuid primary key, account text not null, cents bigint not null)"
INSERT = "insert into booking (id, account, cents) values ($1, $2, $3)"
INSERT_ALL = "insert into booking select * from unnest($1::uuid[], $2::text[], $3::bigint[])"


class Book(BaseModel):
    """What is booked where; a negative amount is refused."""

    account: str
    cents: int


class BookStep(LocalStep[Book]):
    """One small statement of its own."""

    async def execute(self, ctx: LocalContext, order: Book) -> ExecutedLocally:
        await ctx.conn.execute(INSERT, ctx.idempotency_key, order.account, order.cents)
        if order.cents < 0:
            return Rejected("negative_amount")
        return Succeeded({"booking": ctx.idempotency_key})


class BookManyStep(BookStep):
    """One statement for all bookings of a transaction."""

    async def execute_many(
        self, batch: Sequence[tuple[LocalContext, Book]]
    ) -> Sequence[ExecutedLocally]:
        keys = [ctx.idempotency_key for ctx, _ in batch]
        accounts, cents = zip(*((order.account, order.cents) for _, order in batch), strict=True)
        await batch[0][0].conn.execute(INSERT_ALL, keys, accounts, cents)
        return [
            Rejected("negative_amount") if order.cents < 0 else Succeeded({"booking": key})
            for key, (_, order) in zip(keys, batch, strict=True)
        ]


def build_with(step: type[BookStep]) -> Callable[[ParticipantSettings], ParticipantService]:
    def build(settings: ParticipantSettings) -> ParticipantService:
        participant = Participant(NAME)
        participant.step(STEP, input=Book)(step)
        return ParticipantService(participant, settings)

    return build


SERVED = {"serve": BookStep, "serve-many": BookManyStep}


def commands(topic: str, first: int, count: int, refused: int) -> list[OutboxRow]:
    now = int(time.time() * 1000)
    rows = []
    for number in range(first, first + count):
        saga = ids.saga_id("acme", "order", f"ORD-{number}")
        effect = ids.effect_id(saga, 1, STEP, Phase.EXECUTE, None)
        cents = -1 if number % 100 < refused else number
        command = Command(
            saga_id=saga,
            tenant="acme",
            workflow="order",
            business_key=f"ORD-{number}",
            definition_version=1,
            definition_digest="0" * 64,
            step=STEP,
            activation=STEP,
            phase=Phase.EXECUTE,
            attempt=1,
            effect_id=effect,
            command_id=ids.command_id(effect, 1),
            expires_at_ms=now + 3_600_000,
            payload=json_payload({"account": f"A-{number}", "cents": cents}, f"{NAME}.{STEP}.v1"),
        )
        rows.append(encode(command, topic, Stamp("urn:sagabus:orchestrator", now)))
    return rows


async def answered(conn: Connection) -> int:
    return int(await conn.fetchval("select count(*) from outbox"))


async def handler_floor(conn: Connection, count: int) -> float:
    """Return the rate of the handler's statement alone; leaves nothing behind."""
    began = time.perf_counter()
    for _ in range(count // BATCH):
        async with conn.transaction():
            for number in range(BATCH):
                key = f"00000000-0000-4000-8000-{number:012}"
                await conn.execute(INSERT, key, f"A-{number}", number)
            await conn.execute("delete from booking")
    return count / (time.perf_counter() - began)


async def handled(conn: Connection, count: int) -> float:
    """Return the rate from the first answered batch to the last; the start-up does not count."""
    while await answered(conn) < count:
        await pause(0.2)
    row = await conn.fetchrow(
        "with batch as (select xmin::text as x, count(*) as n, max(created_at) as at from outbox"
        " group by 1) select sum(n) - (array_agg(n order by at))[1] as n,"
        " extract(epoch from max(at) - min(at)) as s from batch"
    )
    assert row is not None
    return float(row["n"]) / float(row["s"])


async def round_of(stack: LocalStack, count: int, refused: int, serve: str) -> tuple[float, float]:
    name = f"bench{secrets.token_hex(3)}"
    dsn, topics = stack.postgres.create_database(name), Topics(f"{name}.")
    await migrate(dsn, [SHARED, COMPONENT])
    connection = KafkaConnection(stack.kafka.bootstrap, NAME)
    async with TopicAdmin(connection) as admin:
        await admin.ensure(topics.catalogue([NAME], 3))
    publisher = Publisher(connection)
    for first in range(0, count, BATCH):
        await publisher.publish(commands(topics.command(NAME), first, BATCH, refused))
    await publisher.close()
    database = Database(dsn, DatabaseOptions(application_name="bench", pool_size=1))
    await database.open()
    environment = {
        "SAGABUS_KAFKA": stack.kafka.bootstrap, "SAGABUS_POSTGRES": dsn,
        "SAGABUS_TOPIC_PREFIX": f"{name}.",
    }  # fmt: skip
    async with database.connection() as conn:
        await conn.execute(TABLE)
        floor = await handler_floor(conn, count)
        with tempfile.TemporaryFile() as log:
            service = subprocess.Popen(  # noqa: ASYNC220  (a child that outlives many awaits)
                [sys.executable, "-m", "tests.bench.participant_rate", serve],
                env={**os.environ, **environment}, stdout=log, stderr=log,
            )  # fmt: skip
            try:
                rate = await handled(conn, count)
            finally:
                service.terminate()
                service.wait(20)
    await database.close()
    return rate, floor


async def main(stack: LocalStack, count: int, refused: int, serve: str) -> dict[str, object]:
    pairs = [await round_of(stack, count, refused, serve) for _ in range(ROUNDS)]
    value, floor = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"value": round(value), "floor": round(floor), "ratio": round(value / floor, 3)}


def measure(count: int, refused: int, serve: str) -> None:
    """Measure and keep."""
    gc.freeze()
    key = "participant_cps" + "_many" * (serve == "serve-many")
    key += f"_{refused}_refused" if refused else ""
    with LocalStack("participant-rate") as stack:
        stack.start()
        found = {key: uvloop.run(main(stack, count, refused, serve))}
    keep(found)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


async def memory(dsn: str, total: int) -> dict[int, float]:
    """Return the resident memory in MiB after every tenth of so many commands."""
    await migrate(dsn, [SHARED, COMPONENT])
    database, window = Database(dsn, DatabaseOptions("memory", pool_size=2)), InboxWindow(30)
    await database.open()
    await inbox.maintain(database, window)
    participant, topics = Participant(NAME), Topics("x.")
    participant.step(STEP, input=Book)(BookStep)
    meters = Meters(CollectorRegistry())
    batches = CommandBatches(Shell(participant, database, topics, meters, window))
    async with database.connection() as conn:
        await conn.execute(TABLE)
    told = {}
    for first in range(0, total, BATCH):
        rows = commands(topics.command(NAME), first, BATCH, refused=1)
        await batches.process([Record(r.topic, 0, 0, r.key, r.value, r.headers, 0) for r in rows])
        if (first + BATCH) % (total // 10) == 0:
            told[first + BATCH] = resident_mib()
            print(first + BATCH, told[first + BATCH], file=sys.stderr)  # noqa: T201
            async with database.connection() as conn:
                await conn.execute("truncate outbox")  # the relay's part
    await database.close()
    return told


def measure_memory(total: int) -> None:
    with LocalStack("participant-memory") as stack:
        found = uvloop.run(memory(stack.postgres.create_database("memory"), total))
    print(json.dumps({"resident_mib": found}, indent=1))  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        measure_memory(int(sys.argv[2]) if len(sys.argv) > 2 else 200_000)
        sys.exit()
    if sys.argv[1:2] and sys.argv[1] in SERVED:
        sys.exit(run_service(NAME, build_with(SERVED[sys.argv[1]]), ParticipantSettings))
    numbers = [int(argument) for argument in sys.argv[1:] if argument != "many"]
    how_many, how_bad = numbers + [10_000, 0][len(numbers) :]
    measure(how_many, how_bad, "serve-many" if "many" in sys.argv else "serve")
