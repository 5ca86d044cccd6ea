"""The rules of a consumer without Kafka: hold in an outage, find poison, set it aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sagabus_bus.dead_letters import Reason, reason_of
from sagabus_bus.errors import WorkInterrupted
from sagabus_bus.events import ConsumerEvents
from sagabus_bus.isolation import Poison, isolate
from sagabus_bus.ports import BatchHandler, Pulse
from sagabus_core.errors import SagabusError
from sagabus_messages.record import Record
from sagabus_runtime.backoff import BackOff, BackOffPolicy
from sagabus_runtime.errors import is_retryable

__all__ = ["BatchWorker", "Owns", "WorkerOptions"]

Owns = Callable[[Record], bool]
"""Whether the partition of a record still belongs to this consumer."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How outages and suspicious failures are waited out.

    A batch of at least `suspicious` records of which every single one fails with a programming
    error looks like a bug of ours, not like poison: it is tried again `second_thoughts` times
    (about half a minute with the default policy) before any of it is set aside.
    """

    outage: BackOffPolicy = field(default_factory=lambda: BackOffPolicy(50, 5_000))
    suspicious: int = 10
    second_thoughts: int = 5
    suspicion: BackOffPolicy = field(default_factory=lambda: BackOffPolicy(1_000, 20_000))


class BatchWorker:
    """Carries batches through a handler; one batch at a time."""

    def __init__(
        self, handler: BatchHandler, events: ConsumerEvents, options: WorkerOptions | None = None
    ) -> None:
        self._handler = handler
        self._events = events
        self._options = options or WorkerOptions()

    async def work(
        self, records: Sequence[Record], pulse: Pulse, owns: Owns = lambda _: True
    ) -> None:
        """Return when every record is handled or set aside, durably; offsets may be committed.

        Order per key is kept. In an outage this waits as long as it takes, beating as `excuse`,
        and lets go of records that a rebalance took (their new owner meets them again).
        Raises `WorkInterrupted` when asked to stop while waiting: commit nothing then.
        """
        turn = _Turn(pulse, owns)
        poison = await self._isolate(records, turn)
        back_off = BackOff(self._options.suspicion)
        suspicious = self._looks_like_a_bug(records, poison)
        while suspicious and poison and back_off.attempts < self._options.second_thoughts:
            trouble = f"{len(poison)} records fail: {reason_of(poison[0].error).code}"
            await self._hold(len(poison), trouble, turn, back_off)
            poison = await self._isolate([entry.record for entry in poison], turn)
        for entry in poison:
            reason = reason_of(entry.error)
            await self.set_aside(entry.record, reason, pulse, entry.attempts)
        self._events.handled(len(records) - len(poison))

    async def set_aside(
        self, record: Record, reason: Reason, pulse: Pulse, attempts: int = 1
    ) -> None:
        """Dead-letter one record, waiting out every failure: it is neither lost nor skipped."""
        back_off = BackOff(self._options.outage)
        while True:
            try:
                await self._handler.dead_letter(record, reason, attempts)
            except Exception as error:  # noqa: BLE001  (a supervised loop; the record must not be lost)
                await self._hold(1, _trouble(error), _Turn(pulse), back_off)
            else:
                pulse.beat()
                self._events.dead_lettered(record, reason, attempts)
                return

    async def _isolate(self, records: Sequence[Record], turn: _Turn) -> list[Poison]:
        search = isolate(records)
        error: Exception | None = None
        try:
            part = next(search)
            while True:
                error = await self._attempt(part, turn)
                if error is not None and len(part) == len(records) > 1:
                    self._events.isolating(len(part), error)
                part = search.send(error)
        except StopIteration as found:
            poison: list[Poison] = found.value
            return poison

    async def _attempt(self, records: Sequence[Record], turn: _Turn) -> Exception | None:
        """Return None once the records are durable, or the error that they themselves cause."""
        back_off = BackOff(self._options.outage)
        turn.pulse.beat()
        while records:
            try:
                await self._handler.process(records)
            except Exception as error:  # noqa: BLE001  (the verdict on records is any error)
                if not (is_retryable(error) or isinstance(error, MemoryError)):
                    return error
                await self._hold(len(records), _trouble(error), turn, back_off)
                records = [record for record in records if turn.owns(record)]
            else:
                turn.pulse.beat()
                break
        return None

    async def _hold(self, count: int, trouble: str, turn: _Turn, back_off: BackOff) -> None:
        delay_ms = back_off.next_ms()
        self._events.holding(count, trouble, delay_ms)
        turn.pulse.excuse(f"holding {count} records: {trouble}")
        if await turn.pulse.pause(delay_ms):
            raise WorkInterrupted("work_interrupted", f"asked to stop while holding: {trouble}")

    def _looks_like_a_bug(self, records: Sequence[Record], poison: list[Poison]) -> bool:
        return len(poison) >= max(self._options.suspicious, len(records)) and not any(
            isinstance(entry.error, SagabusError) for entry in poison
        )


@dataclass(frozen=True, slots=True)
class _Turn:
    """What one call of `work` carries along."""

    pulse: Pulse
    owns: Owns = field(default=lambda _: True)


def _trouble(error: Exception) -> str:
    """Return what an operator must know: a code alone would hide that a disk is full."""
    return str(error) if isinstance(error, SagabusError) else type(error).__name__
