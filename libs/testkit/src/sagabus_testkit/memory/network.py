"""Kafka in memory: records go from outbox to consumer, or get lost, late, twice by the script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sagabus_core.vocabulary import Phase
from sagabus_messages import Command, OutboxRow, Record, Result, Topics, decode
from sagabus_testkit.memory.agenda import Agenda
from sagabus_testkit.memory.script import MessageFault, Script
from sagabus_testkit.memory.story import Story

__all__ = ["Network", "describe"]

Consumer = Callable[[Record], Awaitable[None]]

_HOP_MS: Final = 1


@dataclass(slots=True)
class _Held:
    """A command that waits for a later one to be seen first."""

    row: OutboxRow
    command: Command
    until: Phase


@dataclass(slots=True)
class Network:
    """Topics with one consumer each; `script` is asked about every command and answer."""

    agenda: Agenda
    topics: Topics
    script: Script
    story: Story
    _consumers: dict[str, Consumer] = field(default_factory=dict)
    _held: list[_Held] = field(default_factory=list)
    _offset: int = 0

    def subscribe(self, topic: str, consumer: Consumer) -> None:
        """Deliver the records of a topic."""
        self._consumers[topic] = consumer

    def send(self, row: OutboxRow) -> None:
        """Publish a row of an outbox."""
        body = decode(self._record(row), self.topics).body
        match body:
            case Command():
                fault = self.script.about_command(body)
                self._carry(row, body, fault, "command")
            case Result():
                fault = self.script.about_answer(body)
                self._carry(row, body, fault, "answer")
            case _:
                self._deliver_after(row, _HOP_MS)

    def deliver(self, row: OutboxRow, after_ms: int) -> None:
        """Deliver a record again, as Kafka does after a crash of its consumer."""
        self._deliver_after(row, after_ms)

    def _carry(
        self, row: OutboxRow, body: Command | Result, fault: MessageFault, what: str
    ) -> None:
        name = f"{what} {describe(body)}"
        if fault.lost:
            self.story.tell(body.saga_id, "✗", f"{name} is lost")
        elif fault.after is not None and isinstance(body, Command):
            self.story.tell(body.saga_id, "✗", f"{name} is overtaken by {fault.after}")
            self._held.append(_Held(row, body, fault.after))
        else:
            if fault.delay_ms:
                self.story.tell(body.saga_id, "✗", f"{name} is late by {fault.delay_ms} ms")
            self._deliver_after(row, _HOP_MS + fault.delay_ms)
        for copy_ms in fault.copies:
            self.story.tell(body.saga_id, "✗", f"{name} comes twice")
            self._deliver_after(row, _HOP_MS + fault.delay_ms + copy_ms)

    def _deliver_after(self, row: OutboxRow, delay_ms: int) -> None:
        self.agenda.after(delay_ms, partial(self._deliver, row))

    async def _deliver(self, row: OutboxRow) -> None:
        consumer = self._consumers.get(row.topic)
        if consumer is None:
            return  # nobody reads the lifecycle topic here
        record = self._record(row)
        await consumer(record)
        if self._held:
            self._release(decode(record, self.topics).body)

    def _release(self, seen: object) -> None:
        if not isinstance(seen, Command):
            return
        for held in list(self._held):
            same = (held.command.saga_id, held.command.activation, held.until)
            if same == (seen.saga_id, seen.activation, seen.phase):
                self._held.remove(held)
                self._deliver_after(held.row, _HOP_MS)

    def _record(self, row: OutboxRow) -> Record:
        self._offset += 1
        return Record(
            row.topic, 0, self._offset, row.key, row.value, row.headers, self.agenda.now_ms
        )


def describe(message: Command | Result) -> str:
    """Return which attempt at what a message is about."""
    target = f" of {message.target}" if message.target else ""
    return f"{message.activation}: {message.phase}{target} #{message.attempt}"
