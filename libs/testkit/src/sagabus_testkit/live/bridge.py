"""A network that loses, delays, repeats and reorders: between a system and a participant.

The participant lives under a topic prefix of its own. The bridge carries its commands there and
its answers back, as the scripts say; everything else is real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

from sagabus_bus import KafkaConnection, Publisher, Tail
from sagabus_core.vocabulary import Phase
from sagabus_messages import Command, OutboxRow, Record, Result, Topics, decode
from sagabus_testkit.live.part import Part
from sagabus_testkit.memory.script import MessageFault

__all__ = ["FaultyBridge"]

_POLL_MS: Final = 50
_CALM: Final = MessageFault()


@dataclass(frozen=True, slots=True)
class _Held:
    row: OutboxRow
    command: Command
    until: Phase


class FaultyBridge:
    """Carries records between `system` and `edge` topics of some participants. `async with`."""

    def __init__(
        self,
        connection: KafkaConnection,
        system: Topics,
        edge: Topics,
        participants: tuple[str, ...],
        parts: Mapping[str, Part],
    ) -> None:
        self._system, self._edge, self._parts = system, edge, parts
        self._publisher = Publisher(connection)
        commands = [system.command(name) for name in participants]
        results = [edge.result(name) for name in participants]
        self._commands = Tail(connection, commands, begin="beginning")
        self._results = Tail(connection, results, begin="beginning")
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: list[_Held] = []

    async def __aenter__(self) -> Self:
        await self._commands.__aenter__()
        await self._results.__aenter__()
        self._begin(self._carry(self._commands, self._system, self._edge))
        self._begin(self._carry(self._results, self._edge, self._system))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._commands.__aexit__(kind, error, trace)
        await self._results.__aexit__(kind, error, trace)
        await self._publisher.close()

    async def _carry(self, tail: Tail, source: Topics, target: Topics) -> None:
        while True:
            now: list[OutboxRow] = []
            for record in await tail.poll(_POLL_MS):
                now += self._treated(record, source, target)
            if now:
                await self._publisher.publish(now)

    def _treated(self, record: Record, source: Topics, target: Topics) -> list[OutboxRow]:
        """Return what goes on at once."""
        body = decode(record, source).body
        topic = target.prefix + record.topic.removeprefix(source.prefix)
        row = OutboxRow(topic, record.key, record.headers, record.value)
        fault = self._fault(body)
        if fault.after is not None and isinstance(body, Command):
            self._held.append(_Held(row, body, fault.after))
        released = self._released(body)
        for copy_ms in fault.copies:
            self._begin(self._publish_later(row, fault.delay_ms + copy_ms))
        if fault.lost or fault.after is not None:
            return released
        if fault.delay_ms:
            self._begin(self._publish_later(row, fault.delay_ms))
            return released
        return [row, *released]

    def _fault(self, body: object) -> MessageFault:
        match body:
            case Command() if body.workflow in self._parts:
                return self._parts[body.workflow].script.about_command(body)
            case Result() if body.workflow in self._parts:
                return self._parts[body.workflow].script.about_answer(body)
            case _:
                return _CALM

    def _released(self, body: object) -> list[OutboxRow]:
        if not isinstance(body, Command):
            return []
        seen = (body.saga_id, body.activation, body.phase)
        free = [
            held
            for held in self._held
            if (held.command.saga_id, held.command.activation, held.until) == seen
        ]
        self._held = [held for held in self._held if held not in free]
        return [replace(held.row) for held in free]

    async def _publish_later(self, row: OutboxRow, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)
        await self._publisher.publish([row])

    def _begin(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]  # a coroutine
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
