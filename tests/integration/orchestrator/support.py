"""The orchestrator on a real database, driven record by record: the test is Kafka and the relay."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from prometheus_client import CollectorRegistry

from sagabus_core import ids
from sagabus_core.canonical import JsonValue, canonical_bytes
from sagabus_core.vocabulary import ResultStatus, TerminalStatus
from sagabus_expressions import CelConditions
from sagabus_messages import (
    Command,
    Lifecycle,
    Message,
    OutboxRow,
    Record,
    Result,
    Stamp,
    Start,
    Topics,
    Wakeup,
    WakeupRequest,
    decode,
    encode,
    json_payload,
    source_of,
    unpack_headers,
)
from sagabus_orchestrator.app import COMPONENTS
from sagabus_orchestrator.catalog import CatalogWatcher, DefinitionRef
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.handler import Handler
from sagabus_orchestrator.operations import Operations
from sagabus_orchestrator.registry import Registry
from sagabus_store import Connection, Database, DatabaseOptions, InboxWindow, inbox, migrate

TOPICS = Topics("")
TIMING: JsonValue = {"timeout_ms": 1_000, "attempts": 3, "backoff": {"initial_ms": 100}}
RESOLVE: JsonValue = {
    "timeout_ms": 1_000,
    "attempts": 3,
    "backoff": {"initial_ms": 100},
    "budget_ms": 60_000,
}


def step(participant: str, kind: str, *, cancellable: bool = False) -> dict[str, JsonValue]:
    """Return the declaration of a step with all that its kind needs."""
    if kind == "retriable":
        return {"participant": participant, "kind": kind, "execute": TIMING}
    body: dict[str, JsonValue] = {
        "participant": participant,
        "kind": kind,
        "execute": {"timeout_ms": 1_000},
        "resolve": RESOLVE,
        "cancellable": cancellable,
        "unknown_allowed": True,
        "timeout_policy": "accept_late_success",
    }
    if cancellable:
        body["cancel"] = TIMING
    if kind == "compensatable":
        body["compensate"] = TIMING
    return body


def order(version: int = 1, **changes: JsonValue) -> dict[str, JsonValue]:
    """Return an order workflow of two compensatable steps, a pivot and a retriable step."""
    return {
        "workflow": "order",
        "version": version,
        "variables": {"sku": "string"},
        "input": {
            "content_type": "application/json",
            "schema_id": "order.v1",
            "set": {"sku": "/sku"},
        },
        "steps": {
            "reserve": {
                **step("inventory", "compensatable", cancellable=True),
                "payload": {"content_type": "application/json", "schema_id": "reserve.v1"},
            },
            "charge": step("payment", "compensatable"),
            "ship": step("shipping", "pivot"),
            "confirm": step("inventory", "retriable"),
        },
        "flow": {
            "sequence": [
                {"step": "reserve", "input": {"sku": "sku"}},
                {"step": "charge"},
                {"step": "ship"},
                {"step": "confirm"},
            ]
        },
        **changes,
    }


async def no_topics_missing(topics: Iterable[str]) -> Iterable[str]:
    del topics
    return ()


@dataclass
class Rig:
    """One orchestrator database with a handler; `read_outbox` is what the relay would have sent."""

    database: Database
    handler: Handler
    registry: Registry
    operations: Operations
    watcher: CatalogWatcher
    _offset: int = 0
    _seen: int = 0
    sent: list[Message] = field(default_factory=list)

    def record(self, row: OutboxRow) -> Record:
        self._offset += 1
        return Record(row.topic, 0, self._offset, row.key, row.value, row.headers, 0)

    def start_record(
        self,
        key: str = "ORD-1",
        *,
        start_id: str | None = None,
        tenant: str = "acme",
        workflow: str = "order",
        version: int | None = None,
        payload: JsonValue = None,
        schema: str = "order.v1",
    ) -> Record:
        body = Start(
            tenant=tenant,
            workflow=workflow,
            definition_version=version,
            business_key=key,
            payload=json_payload(payload or {"sku": "widget"}, schema),
        )
        stamp = Stamp(source_of("shop"), self.now_ms())
        return self.record(encode(body, TOPICS.start, stamp, ce_id=start_id or str(uuid4())))

    def result_record(
        self,
        command: Command,
        status: ResultStatus = ResultStatus.SUCCEEDED,
        *,
        participant: str | None = None,
        terminal: TerminalStatus | None = None,
        ordinal: int = 1,
    ) -> Record:
        body = Result(
            **{
                name: getattr(command, name)
                for name in [
                    "saga_id",
                    "tenant",
                    "workflow",
                    "business_key",
                    "definition_version",
                    "definition_digest",
                    "step",
                    "activation",
                    "phase",
                    "target",
                    "attempt",
                    "effect_id",
                    "command_id",
                ]
            },
            event_id=ids.result_event_id(command.command_id, ordinal),
            status=status,
            terminal_status=terminal,
            reason_code="no_reason" if status is ResultStatus.REJECTED else None,
            occurred_at_ms=self.now_ms(),
        )
        owner = participant or {"charge": "payment", "ship": "shipping"}.get(
            command.step, "inventory"
        )
        return self.record(
            encode(body, TOPICS.result(owner), Stamp(source_of(owner), self.now_ms()))
        )

    def wakeup_record(self, request: WakeupRequest) -> Record:
        assert request.at_ms is not None
        body = Wakeup(
            saga_id=request.saga_id,
            generation=request.generation,
            at_ms=request.at_ms,
            fired_at_ms=max(request.at_ms, self.now_ms()),
        )
        return self.record(encode(body, TOPICS.wakeup, Stamp(source_of("timer"), self.now_ms())))

    @staticmethod
    def now_ms() -> int:
        return int(time.time() * 1000)

    async def read_outbox(self) -> list[Message]:
        """Return what was written since the last call, decoded, dead letters left out."""
        async with self.database.connection() as conn:
            rows = await conn.fetch(
                "select * from outbox where id > $1 and topic not like '%.dlt' order by id",
                self._seen,
            )
        if rows:
            self._seen = rows[-1]["id"]
        fresh = [
            decode(
                Record(r["topic"], 0, 0, r["key"], r["value"], unpack_headers(r["headers"]), 0),
                TOPICS,
            ).body
            for r in rows
        ]
        self.sent += fresh
        return fresh

    async def process(self, *records: Record) -> list[Message]:
        await self.handler.process(records)
        return await self.read_outbox()

    async def dead_letters(self) -> list[str]:
        """Return the reasons of all dead letters in order."""
        async with self.database.connection() as conn:
            rows = await conn.fetch(
                "select headers from outbox where topic like '%.dlt' order by id"
            )
        headers = [dict(unpack_headers(row["headers"])) for row in rows]
        return [header["sagabus-error-reason"].decode() for header in headers]

    async def count(self, table: str) -> int:
        async with self.database.connection() as conn:
            return int(await conn.fetchval(f"select count(*) from {table}"))

    async def publish(self, document: dict[str, JsonValue]) -> DefinitionRef:
        published = await self.registry.publish(canonical_bytes(document))
        await self.registry.activate(published.ref, no_topics_missing)
        await self.watcher.refresh()
        return published.ref


def commands(messages: Iterable[Message]) -> list[Command]:
    return [message for message in messages if isinstance(message, Command)]


def lifecycle(messages: Iterable[Message]) -> list[Lifecycle]:
    return [message for message in messages if isinstance(message, Lifecycle)]


async def prepare(connection: Connection) -> None:
    today = datetime.now(UTC).date()
    await connection.fetchval(
        "select journal_create_partitions($1::date, $2::date)", today, today + timedelta(days=40)
    )


async def open_rig(dsn: str) -> Rig:
    await migrate(dsn, COMPONENTS)
    database = Database(dsn, DatabaseOptions(application_name="test", pool_size=8))
    await database.open()
    window = InboxWindow(30)
    await inbox.maintain(database, window)
    async with database.connection() as conn:
        await prepare(conn)
    watcher = CatalogWatcher(database, CelConditions())
    await watcher.refresh()
    handler = Handler(database, TOPICS, watcher, window, OrchestratorEvents(CollectorRegistry()))
    registry = Registry(database, CelConditions(), TOPICS)
    operations = Operations(database, TOPICS, watcher)
    return Rig(database, handler, registry, operations, watcher)
