"""Drives one saga on virtual time, and judges every decision by the invariants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagabus_core.definitions.model import Definition
from sagabus_core.definitions.parse import parse_definition
from sagabus_core.engine.codec import from_json, to_json
from sagabus_core.engine.decide import decide, start
from sagabus_core.engine.effects import IssueCommand
from sagabus_core.engine.events import (
    Event,
    Operation,
    ResultReceived,
    StartRequest,
    Sweep,
    WakeupDelivered,
)
from sagabus_core.engine.invariants import repeat_violations, violations
from sagabus_core.engine.snapshot import Decision, Snapshot
from sagabus_core.engine.vocabulary import CHANNELS, UNDO_CHANNELS
from sagabus_core.payload import Payload
from sagabus_core.testing.conditions import TinyConditions
from sagabus_core.vocabulary import Phase, ResultStatus, SagaStatus, TerminalStatus

__all__ = ["BrokenInvariant", "SagaDriver"]

_START_MS = 1_000_000_000_000


class BrokenInvariant(AssertionError):
    """A decision broke an invariant of the engine."""


class SagaDriver:
    """One saga: `answer`, `wake`, `apply`, then look at `status`, `commands` and `snapshot`.

    `sent` are all commands so far; `last` is the last decision that was kept, `decided` the last
    one that was made: they differ after a `BrokenInvariant`.
    """

    def __init__(
        self,
        document: Mapping[str, Any] | Definition,
        *,
        payload: Payload | None = None,
        deadline_ms: int | None = None,
    ) -> None:
        self.definition = (
            document
            if isinstance(document, Definition)
            else parse_definition(document, TinyConditions())
        )
        self.now_at_ms = _START_MS
        self.sent: list[IssueCommand] = []
        self._events = 0
        deadline = None if deadline_ms is None else self.now_at_ms + deadline_ms
        request = StartRequest("acme", "order-1", "start-1", deadline, payload)
        self.last = self.decided = start(self.definition, request, self.now_at_ms)
        self.snapshot: Snapshot = self.last.snapshot
        self._judge(None, self.last)

    @property
    def status(self) -> SagaStatus:
        """Where the saga stands."""
        return self.snapshot.status

    @property
    def commands(self) -> list[tuple[str, str, int]]:
        """What the last decision issued: (activation, channel letter, attempt)."""
        return [(c.activation, c.channel.value, c.attempt) for c in self.last.commands]

    def answer(
        self,
        activation: str,
        status: ResultStatus | TerminalStatus | str,
        phase: str = "EXECUTE",
        *,
        target: str | None = None,
        attempt: int | None = None,
        output: Payload | None = None,
    ) -> Decision:
        """Deliver an answer to an attempt (the current one, unless given).

        For ALREADY_TERMINAL write the terminal status behind a colon: `ALREADY_TERMINAL:HALTED`.
        """
        self._events += 1
        word, _, terminal = str(status).partition(":")
        asked, about = Phase(phase), Phase(target) if target else None
        event = ResultReceived(
            f"event-{self._events}",
            activation,
            asked,
            self._current(activation, asked, about) if attempt is None else attempt,
            ResultStatus(word),
            about,
            TerminalStatus(terminal) if terminal else None,
            output=output,
        )
        decision = self.apply(event)
        self._check_repeat(event)
        return decision

    def wake(self) -> Decision:
        """Advance to the armed time and deliver the wake-up."""
        armed = self.snapshot.armed_at_ms
        if armed is None:
            raise BrokenInvariant("nothing is armed")
        self.now_at_ms = max(self.now_at_ms, armed)
        return self.deliver(self.snapshot.generation)

    def deliver(self, generation: int) -> Decision:
        """Deliver the wake-up of a generation now."""
        event = WakeupDelivered(f"wakeup-{generation}", generation)
        decision = self.apply(event)
        self._check_repeat(event)
        return decision

    def sweep(self) -> Decision:
        """Sweep now."""
        return self.apply(Sweep(f"sweep-{self.snapshot.generation}"))

    def wait(self, milliseconds: int) -> None:
        """Let time pass; nothing is delivered."""
        self.now_at_ms += milliseconds

    def operation(self, **more: Any) -> Operation:  # noqa: ANN401
        """Return a fresh operation by an operator."""
        self._events += 1
        return Operation(f"operation-{self._events}", "olga", "because", **more)

    def apply(self, event: Event) -> Decision:
        """Decide, judge and keep; the snapshot goes through its stored form."""
        before = self.snapshot
        self.decided = decide(self.definition, before, event, self.now_at_ms)
        self._judge(before, self.decided)
        self.last = self.decided
        return self.decided

    def _judge(self, before: Snapshot | None, decision: Decision) -> None:
        broken = violations(self.definition, before, decision, self.now_at_ms)
        stored = from_json(to_json(decision.snapshot))
        if stored != decision.snapshot:
            broken.append("the snapshot is not what was stored")
        if broken:
            raise BrokenInvariant("; ".join(broken))
        self.sent.extend(decision.commands)
        self.snapshot = stored

    def _check_repeat(self, event: Event) -> None:
        broken = repeat_violations(self.definition, self.snapshot, event, self.now_at_ms)
        if broken:
            raise BrokenInvariant("; ".join(broken))

    def _current(self, path: str, phase: Phase, target: Phase | None) -> int:
        channel = CHANNELS[phase, target]
        if channel in UNDO_CHANNELS:
            return self.snapshot.members[path].attempts[channel]
        return self.snapshot.activations[path].attempts[channel]
