"""A participant on a real database, driven record by record: the test is Kafka and the relay."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from sagabus_core import ids
from sagabus_core.canonical import JsonValue
from sagabus_core.vocabulary import Phase
from sagabus_messages import (
    Command,
    Record,
    Result,
    Stamp,
    Topics,
    decode,
    encode,
    json_payload,
    unpack_headers,
)
from sagabus_participant import (
    COMPONENT,
    Callbacks,
    CommandBatches,
    Meters,
    Participant,
    Shell,
    WorkBench,
)
from sagabus_participant.session import WORK
from sagabus_participant.work import Item
from sagabus_store import SHARED, Component, Database, DatabaseOptions, InboxWindow, inbox, migrate

DIGEST = "0" * 64


class Order(BaseModel):
    """The input of every step in these tests."""

    order: str = "ORD-1"


@dataclass
class Rig:
    """One participant with its database; `heard` collects every answer."""

    shell: Shell
    step: str
    heard: list[Result] = field(default_factory=list)
    _offset: int = 0
    _seen: int = 0

    @property
    def db(self) -> Database:
        return self.shell.db

    def command(
        self,
        phase: Phase,
        attempt: int = 1,
        *,
        target: Literal[Phase.EXECUTE, Phase.COMPENSATE] | None = None,
        key: str = "ORD-1",
        operation: str | None = None,
        expires_in_ms: int = 60_000,
        payload: JsonValue = None,
        schema: str | None = None,
    ) -> Record:
        """Return the record of a command, as the orchestrator would have sent it."""
        step = self.shell.participant.find(self.step)
        assert step is not None
        saga = ids.saga_id("acme", "order", key)
        effect = ids.effect_id(saga, 1, self.step, phase, target)
        now = int(time.time() * 1000)
        data: JsonValue = {"order": key} if payload is None else payload
        command = Command(
            saga_id=saga,
            tenant="acme",
            workflow="order",
            business_key=key,
            definition_version=1,
            definition_digest=DIGEST,
            step=self.step,
            activation=self.step,
            phase=phase,
            target=target,
            attempt=attempt,
            effect_id=effect,
            command_id=ids.command_id(effect, attempt),
            recovery_operation_id=operation,
            expires_at_ms=now + expires_in_ms,
            payload=json_payload(data, schema or step.input_schema),
        )
        topic = self.shell.topics.command(self.shell.participant.name)
        row = encode(command, topic, Stamp("urn:sagabus:orchestrator", now))
        self._offset += 1
        return Record(row.topic, 0, self._offset, row.key, row.value, row.headers, now)

    async def send(self, *records: Record) -> list[Result]:
        """Deliver one batch and return what was answered at once."""
        await CommandBatches(self.shell).process(records)
        return await self.answers()

    async def ask(self, phase: Phase, attempt: int = 1, target: Any = None) -> list[Result]:
        """Deliver one command and return what was answered at once."""
        return await self.send(self.command(phase, attempt, target=target))

    async def claim(self, lease_ms: int = 60_000) -> list[Item]:
        """Lease everything that is due."""
        lease = str(uuid4())
        async with self.db.connection() as conn:
            rows = await conn.fetch(WORK["claim"], 100, lease, lease_ms)
        return [Item(row["id"], lease, row["record"], row["tries"]) for row in rows]

    async def work(self, lease_ms: int = 60_000) -> list[Result]:
        """Do what is due, until nothing is, and return what was answered."""
        while items := await self.claim(lease_ms):
            for item in items:
                await WorkBench(self.shell).work(item)
        return await self.answers()

    async def answers(self) -> list[Result]:
        """Return the answers that were written since the last look."""
        async with self.db.connection() as conn:
            rows = await conn.fetch(
                "select id, topic, key, headers, value from outbox where id > $1 order by id",
                self._seen,
            )
        fresh = [self._result(row) for row in rows if not row["topic"].endswith(".dlt")]
        self._seen = max([row["id"] for row in rows], default=self._seen)
        self.heard += fresh
        return fresh

    def _result(self, row: Any) -> Result:
        headers = unpack_headers(row["headers"])
        record = Record(str(row["topic"]), 0, 0, row["key"], row["value"], headers, 0)
        body = decode(record, self.shell.topics).body
        assert isinstance(body, Result)
        return body

    async def count(self, table: str) -> int:
        async with self.db.connection() as conn:
            return int(await conn.fetchval(f"select count(*) from {table}"))

    def callbacks(self) -> Callbacks:
        return Callbacks(self.shell)


RigFactory = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def rig_of(database: str) -> AsyncIterator[RigFactory]:
    """Return a function that starts a participant on the test's own database."""
    opened: list[Database] = []

    async def start(
        participant: Participant,
        step: str,
        components: Sequence[Component] = (),
        prefix: str = "t.",
    ) -> Rig:
        await migrate(database, [SHARED, COMPONENT, *components])
        db = Database(database, DatabaseOptions("test", pool_size=4))
        await db.open()
        opened.append(db)
        window = InboxWindow(1)
        await inbox.maintain(db, window)
        shell = Shell(participant, db, Topics(prefix), Meters(CollectorRegistry()), window)
        async with db.transaction() as conn:
            await conn.execute("create table if not exists applied (key text, what text)")
        return Rig(shell, step)

    yield start
    for db in opened:
        await db.close()
