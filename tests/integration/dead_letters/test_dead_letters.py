"""Dead letters through real services, Kafka to Kafka, and the one convention of all consumers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from sagabus_bus import (
    BatchHandler,
    KafkaConnection,
    Published,
    Publisher,
    Reason,
    Tail,
    TopicAdmin,
)
from sagabus_cli import app
from sagabus_client import SagabusClient, StartCommand
from sagabus_core.canonical import JsonValue, canonical_bytes
from sagabus_core.ids import dead_letter_id
from sagabus_core.vocabulary import SagaStatus
from sagabus_expressions import CelConditions
from sagabus_messages import OutboxRow, Record, Topics, unpack_headers
from sagabus_orchestrator.app import COMPONENTS as ORCHESTRATOR
from sagabus_orchestrator.app import build as build_orchestrator
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.config import OrchestratorSettings
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.handler import Handler
from sagabus_orchestrator.registry import Registry
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
    Shell,
    StepOptions,
    Succeeded,
)
from sagabus_relay import RelaySettings
from sagabus_relay import build as build_relay
from sagabus_runtime import new_registry
from sagabus_runtime.lifecycle import ServeOptions, Service, serve
from sagabus_store import SHARED, Database, DatabaseOptions, InboxWindow, migrate
from sagabus_testkit import LocalStack, eventually
from sagabus_testkit.stack import Postgres
from sagabus_timer import COMPONENTS as TIMER
from sagabus_timer.events import TimerEvents
from sagabus_timer.handler import RequestHandler
from sagabus_timer.timekeeper import Timekeeper

OWNER = "gifts"
STEP: JsonValue = {
    "participant": OWNER,
    "kind": "compensatable",
    "execute": {"timeout_ms": 600_000},
    "compensate": {"timeout_ms": 600_000, "attempts": 3, "backoff": {"initial_ms": 100}},
    "resolve": {
        "timeout_ms": 600_000,
        "attempts": 3,
        "backoff": {"initial_ms": 100},
        "budget_ms": 1_000_000,
    },
    "cancellable": False,
    "unknown_allowed": False,
    "timeout_policy": "accept_late_success",
}
WRAPPING: dict[str, JsonValue] = {
    "workflow": "gift",
    "version": 1,
    "steps": {"wrap": STEP},
    "flow": {"sequence": [{"step": "wrap"}]},
}


class Nothing(BaseModel):
    """Steps here take no input."""


@dataclass
class Wrap(LocalStep[Nothing]):
    """Notes each effect that it had."""

    wrapped: list[str] = field(default_factory=list)

    async def execute(self, ctx: LocalContext, order: Nothing) -> ExecutedLocally:
        self.wrapped.append(ctx.idempotency_key)
        return Succeeded()


@dataclass
class Shop:
    """Orchestrator and relay in this process, and one participant at a time."""

    stack: LocalStack
    name: str
    topics: Topics
    connection: KafkaConnection
    dsns: dict[str, str]

    def settings(self, service: str) -> dict[str, Any]:
        return {
            "kafka": self.stack.kafka.bootstrap,
            "topic_prefix": self.topics.prefix,
            "postgres": self.dsns[service],
        }

    @asynccontextmanager
    async def participating(self, participant: Participant) -> AsyncIterator[None]:
        settings = ParticipantSettings.model_validate(self.settings(OWNER))
        async with running(ParticipantService(participant, settings)):
            yield

    async def dlt(self, *words: str, code: int = 0) -> dict[str, Any]:
        line = ["--json", "--postgres", self.dsns["orchestrator"]]
        line += ["--topic-prefix", self.topics.prefix, "dlt", *words]
        said: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("typer.echo", lambda text="", **_: said.append(str(text)))
            assert await asyncio.to_thread(app.run, line) == code, said
        document: dict[str, Any] = json.loads(said[-1])
        return document

    async def until_listed(self, **wanted: object) -> dict[str, Any]:
        """Wait until exactly one open letter has these fields and return it."""

        async def found() -> dict[str, Any] | None:
            letters = (await self.dlt("list"))["dead_letters"]
            mine = [e for e in letters if all(e[k] == v for k, v in wanted.items())]
            assert len(mine) <= 1
            return mine[0] if mine else None

        letter: dict[str, Any] = await eventually(found, within=30)
        return letter


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[None]:
    task = asyncio.create_task(serve(service, ServeOptions()))
    try:
        yield
    finally:
        service.health.stop.set()
        async with asyncio.timeout(30):
            await task


@pytest.fixture
async def shop(stack: LocalStack, topic_prefix: str) -> AsyncIterator[Shop]:
    names = {"orchestrator": "o", OWNER: "g", "relay": "r"}
    dsns = {
        service: stack.postgres.create_database(f"{topic_prefix}_{short}")
        for service, short in names.items()
    }
    connection = KafkaConnection(stack.kafka.bootstrap, "test")
    made = Shop(stack, topic_prefix, Topics(f"{topic_prefix}."), connection, dsns)
    async with TopicAdmin(connection) as admin:
        await admin.ensure(made.topics.catalogue([OWNER], partitions=2))
    await migrate(dsns["orchestrator"], ORCHESTRATOR)
    await migrate(dsns[OWNER], [SHARED, COMPONENT])
    await publish_definition(made)
    outboxes = json.dumps({name: dsns[name] for name in ("orchestrator", OWNER)})
    settings = made.settings("relay") | {"outboxes": outboxes}
    async with AsyncExitStack() as services:
        orchestrator = OrchestratorSettings.model_validate(made.settings("orchestrator"))
        await services.enter_async_context(running(build_orchestrator(orchestrator)))
        relay = build_relay(RelaySettings.model_validate(settings))
        await services.enter_async_context(running(relay))
        yield made
    for short in names.values():
        stack.postgres.drop_database(f"{topic_prefix}_{short}")


async def publish_definition(shop: Shop) -> None:
    database = Database(shop.dsns["orchestrator"], DatabaseOptions("test", pool_size=1))
    await database.open()

    async def none_missing(_: object) -> tuple[str, ...]:
        return ()

    registry = Registry(database, CelConditions(), shop.topics)
    published = await registry.publish(canonical_bytes(WRAPPING))
    await registry.activate(published.ref, none_missing)
    await database.close()


async def test_a_command_that_met_a_participants_bug_is_redriven_and_the_saga_completes(
    shop: Shop,
) -> None:
    wrap, fixed = Wrap(), Participant(OWNER)
    fixed.add("wrap", Nothing, wrap, StepOptions())
    async with SagabusClient(shop.connection, shop.topics, name="test") as client:
        async with shop.participating(Participant(OWNER)):
            handle = await client.start(StartCommand("acme", "gift", "G-1", None))
            letter = await shop.until_listed(code="unknown_step", saga_id=handle.saga_id)
        async with shop.participating(fixed):
            words = ("redrive", letter["id"], "--reason", "deployed 1.1", "--operation-id", "op-1")
            await shop.dlt(*words)
            await shop.dlt(*words)
            outcome = await client.wait(handle, timeout_s=30)
    assert outcome.status is SagaStatus.COMPLETED
    assert len(wrap.wrapped) == 1


async def test_a_forged_result_is_a_letter_that_stays_refused(shop: Shop) -> None:
    wrap, good = Wrap(), Participant(OWNER)
    good.add("wrap", Nothing, wrap, StepOptions())
    async with SagabusClient(shop.connection, shop.topics, name="test") as client:
        async with shop.participating(good):
            handle = await client.start(StartCommand("acme", "gift", "G-2", None))
            await client.wait(handle, timeout_s=30)
        (genuine,) = await read(shop, shop.topics.result(OWNER))
        forged = OutboxRow(
            genuine.topic,
            genuine.key,
            genuine.headers,
            (genuine.value or b"").replace(b'"definition_version":1', b'"definition_version":2'),
        )
        publisher = Publisher(shop.connection)
        outcomes = await publisher.publish([forged])
        await publisher.close()
        assert isinstance(outcomes[0], Published)
        letter = await shop.until_listed(topic=genuine.topic)
    refused = await shop.dlt("redrive", letter["id"], "--reason", "try", code=4)
    assert refused["error"]["code"] == "still_refused"
    assert letter["code"] in refused["error"]["detail"]
    assert (await shop.until_listed(topic=genuine.topic))["state"] == "open"
    assert len(await read(shop, genuine.topic)) == 2, "nothing is produced to a result topic"


async def read(shop: Shop, topic: str) -> list[Record]:
    async with TopicAdmin(shop.connection) as admin:
        wanted = sum((await admin.end_offsets([topic])).values())
    found: list[Record] = []
    async with Tail(shop.connection, [topic], begin="beginning") as tail:
        while len(found) < wanted:
            found += await tail.poll()
    return found


HandlerOf = Callable[[Database, Topics], BatchHandler]


def orchestrator_of(database: Database, topics: Topics) -> BatchHandler:
    events = OrchestratorEvents(CollectorRegistry())
    watcher = CatalogWatcher(database, CelConditions())
    return Handler(database, topics, watcher, InboxWindow(30), events)


def timer_of(database: Database, topics: Topics) -> BatchHandler:
    events = TimerEvents(new_registry())
    keeper = Timekeeper(database.now_ms, events)
    return RequestHandler(database, topics, 22 * 86_400_000, keeper, events)


def participant_of(database: Database, topics: Topics) -> BatchHandler:
    meters = Meters(CollectorRegistry())
    return CommandBatches(Shell(Participant(OWNER), database, topics, meters, InboxWindow(30)))


CONSUMERS = {
    "orchestrator": (orchestrator_of, ORCHESTRATOR),
    "timer": (timer_of, TIMER),
    "participant": (participant_of, (SHARED, COMPONENT)),
}


async def letters_of(name: str, postgres: Postgres, record: Record) -> list[tuple[Any, ...]]:
    """Return what a consumer's outbox holds after it set a record aside, twice."""
    handler_of, components = CONSUMERS[name]
    dsn = postgres.create_database(database := f"letters_{name}")
    await migrate(dsn, list(components))
    own = Database(dsn, DatabaseOptions("test", pool_size=2))
    await own.open()
    handler = handler_of(own, Topics(""))
    for _ in range(2):
        await handler.dead_letter(record, Reason("some_code", "why"), 3)
    async with own.connection() as conn:
        rows = await conn.fetch("select topic, key, headers, value from outbox order by id")
        claims = await conn.fetchval("select count(*) from inbox")
    await own.close()
    postgres.drop_database(database)
    assert claims == 0, "a dead letter claims nothing"
    return [(r["topic"], r["key"], unpack_headers(r["headers"]), r["value"]) for r in rows]


async def test_every_consumer_writes_the_same_dead_letter(postgres: Postgres) -> None:
    """Through the outbox of the transaction, under an id that derives from the place."""
    record = Record("some.topic", 2, 7, b"key", b"value", (("ce_id", b"own"), ("x", b"")), 0)
    for name in CONSUMERS:
        first, second = await letters_of(name, postgres, record)
        topic, key, headers, value = first
        told = dict(headers)
        assert (topic, key, value) == ("some.topic.dlt", b"key", b"value"), name
        assert headers[:2] == record.headers, name
        assert told["sagabus-dead-letter-id"].decode() == dead_letter_id("some.topic", 2, 7)
        assert told["sagabus-error-reason"] == b"some_code", name
        assert told["sagabus-error-attempts"] == b"3", name
        again = dict(second[2])
        assert {**told, "sagabus-error-first-seen": b""} == {
            **again,
            "sagabus-error-first-seen": b"",
        }
