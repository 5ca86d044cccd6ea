"""The orchestrator on a real database, driven record by record: the test is Kafka and the relay."""

import ast
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from prometheus_client import CollectorRegistry

import sagabus_orchestrator
from sagabus_core import ids
from sagabus_core.canonical import JsonValue, canonical_bytes
from sagabus_core.engine import Operation, Pause, Resume
from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
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
from sagabus_orchestrator.handler import Handler, Sweeper
from sagabus_orchestrator.operations import Operations
from sagabus_orchestrator.registry import Registry
from sagabus_orchestrator.tenants import Tenants
from sagabus_store import Database, DatabaseOptions, InboxWindow, inbox, migrate
from sagabus_testkit import eventually

TOPICS = Topics("")
WINDOW = InboxWindow(30)
Shell = Callable[..., Awaitable[dict[str, Any]]]
TIMING: JsonValue = {"timeout_ms": 1_000, "attempts": 3, "backoff": {"initial_ms": 100}}
RESOLVE: JsonValue = {
    "timeout_ms": 1_000,
    "attempts": 3,
    "backoff": {"initial_ms": 100},
    "budget_ms": 60_000,
}


TABLES = (
    *("saga", "saga_key", "journal", "inbox", "outbox", "deferred_message", "operation"),
    *("tenant_quota", "action_rate", "definition", "reconciler_finding", "archived_saga"),
    *("dead_letter", "dead_letter_operation"),
    *("early_result", "engine_signal"),
    *("api_key", "start_request"),
    *("bulk_refusal", "bulk", "held_saga", "hold"),
)

EVIDENCE = ("audit", "audit_seal")
"""What grows with refusals too."""

IDENTITY = (
    *("saga_id", "tenant", "workflow", "business_key", "definition_version", "definition_digest"),
    *("step", "activation", "phase", "target", "attempt", "effect_id", "command_id"),
)
"""What a result copies from its command."""


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


def patient_order(version: int) -> dict[str, JsonValue]:
    """Return that workflow with steps that are never overdue, however slow the machine."""
    text = json.dumps(order(version)).replace('_ms": 1000', '_ms": 600000')
    document: dict[str, JsonValue] = json.loads(text)
    return document


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
    sweeper: Sweeper
    watcher: CatalogWatcher
    tenants: Tenants
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
        at_ms: int | None = None,
    ) -> Record:
        body = Start(
            tenant=tenant,
            workflow=workflow,
            definition_version=version,
            business_key=key,
            payload=json_payload(payload or {"sku": "widget"}, schema),
        )
        stamp = Stamp(source_of("shop"), at_ms or self.now_ms())
        return self.record(encode(body, TOPICS.start, stamp, ce_id=start_id or str(uuid4())))

    def result_record(
        self,
        command: Command,
        status: ResultStatus = ResultStatus.SUCCEEDED,
        *,
        participant: str | None = None,
        terminal: TerminalStatus | None = None,
        ordinal: int = 1,
        at_ms: int | None = None,
        **changes: object,
    ) -> Record:
        """Return an answer to a command; `changes` replace what it copies from there."""
        copied = {name: getattr(command, name) for name in IDENTITY}
        body = Result(
            **{**copied, **changes},
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
            encode(body, TOPICS.result(owner), Stamp(source_of(owner), at_ms or self.now_ms()))
        )

    def foretold(self, key: str, step: str) -> Command:
        """Return the first EXECUTE of an order, whether or not it was issued so far."""
        definition = self.watcher.current.definitions[DefinitionRef("", "order", 1)]
        saga = self.saga(key)
        effect = ids.effect_id(saga, 1, step, Phase.EXECUTE, None)
        return Command(
            saga_id=saga,
            tenant="acme",
            workflow="order",
            business_key=key,
            definition_version=1,
            definition_digest=definition.digest,
            step=step,
            activation=step,
            phase=Phase.EXECUTE,
            attempt=1,
            effect_id=effect,
            command_id=ids.command_id(effect, 1),
            expires_at_ms=self.now_ms(),
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

    def saga(self, key: str, tenant: str = "acme", workflow: str = "order") -> str:
        return ids.saga_id(tenant, workflow, key)

    async def run(self, statement: str, *arguments: object) -> None:
        async with self.database.connection() as conn:
            await conn.execute(statement, *arguments)

    async def wipe(self) -> None:
        """Empty every table, so that the next test begins as on a new database."""
        await self.run("alter table saga drop constraint if exists forbidden")
        for table in (*TABLES, *EVIDENCE):
            await self.run(f"delete from {table}")
        await self.run("update refusal_budget set window_at = 'epoch', written = 0, withheld = 0")
        await self.run("delete from upkeep_job")
        await self.run(
            "insert into upkeep_job (name) values ('reconciler'), ('archive'), ('holds')"
        )
        await self.run("update definition_generation set generation = generation + 1")

    async def value(self, statement: str, *arguments: object) -> object:
        async with self.database.connection() as conn:
            return await conn.fetchval(statement, *arguments)

    async def snapshot(self, key: str) -> dict[str, JsonValue]:
        raw = await self.value("select snapshot from saga where id = $1", self.saga(key))
        assert isinstance(raw, bytes)
        found: dict[str, JsonValue] = json.loads(raw)
        return found

    async def break_snapshot(self, key: str, **changes: JsonValue) -> bytes:
        """Store what no release has ever written (or another version); return what was there."""
        before = await self.value("select snapshot from saga where id = $1", self.saga(key))
        assert isinstance(before, bytes)
        changed = {**json.loads(before), "v": changes["version"]} if changes else ["nonsense"]
        await self.restore_snapshot(key, json.dumps(changed).encode())
        return before

    async def restore_snapshot(self, key: str, snapshot: bytes) -> None:
        await self.run("update saga set snapshot = $2 where id = $1", self.saga(key), snapshot)

    async def facts(self, key: str) -> list[dict[str, JsonValue]]:
        """Return the journal of a saga in order."""
        async with self.database.connection() as conn:
            rows = await conn.fetch(
                "select fact from journal where saga_id = $1 order by revision, ordinal",
                self.saga(key),
            )
        return [json.loads(row["fact"]) for row in rows]

    async def until(self, at_ms: int) -> None:
        """Wait until the database clock has passed an instant."""

        async def passed() -> bool:
            return await self.database.now_ms() > at_ms

        await eventually(passed)

    async def forbid_key(self, key: str) -> None:
        await self.run(f"alter table saga add constraint forbidden check (business_key <> '{key}')")

    async def set_quota(self, tenant: str, max_active: int) -> None:
        await self.tenants.set_quota(tenant, max_active)

    async def kill_sessions(self) -> None:
        """End every other session that is inside of a transaction, once there is one."""
        async with self.database.connection() as conn:
            await eventually(
                lambda: conn.fetchval(
                    "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                    " and state = 'idle in transaction'"
                )
            )


def operation(name: str, expected_revision: int | None = None) -> Operation:
    return Operation(name, "ada", "because", expected_revision)


def pause(name: str) -> Pause:
    return Pause(operation(name))


def resume(name: str, expected_revision: int | None = None) -> Resume:
    return Resume(operation(name, expected_revision))


def declared_failpoints() -> list[str]:
    """Every failpoint that the shell reaches, by its source."""
    return sorted(
        {
            str(node.args[0].value)
            for path in Path(sagabus_orchestrator.__file__).parent.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "reach"
            and isinstance(node.args[0], ast.Constant)
        }
    )


def commands(messages: Iterable[Message]) -> list[Command]:
    return [message for message in messages if isinstance(message, Command)]


def lifecycle(messages: Iterable[Message]) -> list[Lifecycle]:
    return [message for message in messages if isinstance(message, Lifecycle)]


async def prepare(dsn: str) -> None:
    """Make the tables and partitions of an orchestrator's database."""
    await migrate(dsn, COMPONENTS)
    database = Database(dsn, DatabaseOptions(application_name="test", pool_size=1))
    await database.open()
    today = datetime.now(UTC).date()
    await inbox.maintain(database, WINDOW)
    async with database.connection() as conn:
        await conn.fetchval(
            "select journal_create_partitions($1::date, $2::date)",
            today,
            today + timedelta(days=40),
        )
    await database.close()


async def open_rig(dsn: str) -> Rig:
    """Return a replica on a prepared database."""
    database = Database(dsn, DatabaseOptions(application_name="test", pool_size=8))
    await database.open()
    watcher = CatalogWatcher(database, CelConditions())
    try:
        await watcher.refresh()
    except SagabusError:
        await database.close()
        raise
    events = OrchestratorEvents(CollectorRegistry())
    handler = Handler(database, TOPICS, watcher, WINDOW, events)
    return Rig(
        database=database,
        handler=handler,
        registry=Registry(database, CelConditions(), TOPICS),
        operations=Operations(database, TOPICS, watcher, manual_close_enabled=True),
        sweeper=Sweeper(database, handler, events, interval_ms=50, grace_ms=0),
        watcher=watcher,
        tenants=Tenants(database),
    )
