"""What goes wrong, and when: faults by step, phase and attempt.

    script.on("charge-card").lose_answer()
    script.on("charge-card", "RESOLVE", attempt=2).delay_command(5_000)

Every fault happens once per saga, at the first message or call that it names.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self, TypeAlias

from sagabus_core.vocabulary import Phase
from sagabus_messages import Command, Result
from sagabus_participant import Context, Rejected, Succeeded

__all__ = ["At", "CallFault", "Crash", "MessageFault", "Place", "Script"]


Place: TypeAlias = Command | Result | Context
"""What says where in a saga it stands: a message, or the context of a call."""


class Crash(StrEnum):
    """Where a participant is killed, relative to the handler's call."""

    BEFORE_CALL = "before the call"
    AFTER_CALL = "after the call"


@dataclass(frozen=True, slots=True)
class MessageFault:
    """What the network does to one message.

    `after`: it is held back until the participant has seen a command of that phase of the same
    activation. `copies`: delivered again, so many milliseconds after the first delivery.
    """

    lost: bool = False
    delay_ms: int = 0
    copies: tuple[int, ...] = ()
    after: Phase | None = None

    def __or__(self, other: MessageFault) -> MessageFault:
        """Return both faults together."""
        return MessageFault(
            self.lost or other.lost,
            self.delay_ms + other.delay_ms,
            self.copies + other.copies,
            self.after or other.after,
        )


@dataclass(frozen=True, slots=True)
class CallFault:
    """What happens to the participant while it handles one command.

    `slow_ms`: between the call and its receipt. `callback`: reported so much after an UNKNOWN.
    """

    crash: Crash | None = None
    slow_ms: int = 0
    callback: tuple[int, Succeeded | Rejected] | None = None

    def __or__(self, other: CallFault) -> CallFault:
        """Return both faults together."""
        return CallFault(
            self.crash or other.crash,
            self.slow_ms + other.slow_ms,
            self.callback or other.callback,
        )


_CALM, _HEALTHY = MessageFault(), CallFault()


@dataclass(slots=True)
class At:
    """One place in a saga, and the faults there; every method may follow another.

    `attempt` None: at every attempt.
    """

    step: str
    phase: Phase
    attempt: int | None
    target: Phase | None
    command: MessageFault = _CALM
    answer: MessageFault = _CALM
    call: CallFault = _HEALTHY
    used: set[tuple[str, str, int]] = field(default_factory=set)

    def lose_command(self) -> Self:
        """Let the participant never see the command: a time-out in which nothing happened."""
        return self._with_command(MessageFault(lost=True))

    def delay_command(self, by_ms: int) -> Self:
        """Deliver the command so much later."""
        return self._with_command(MessageFault(delay_ms=by_ms))

    def repeat_command(self, after_ms: int = 0) -> Self:
        """Deliver the command twice."""
        return self._with_command(MessageFault(copies=(after_ms,)))

    def overtaken_by(self, phase: Phase | str) -> Self:
        """Deliver the command only after one of this phase, which was sent later."""
        return self._with_command(MessageFault(after=Phase(phase)))

    def lose_answer(self) -> Self:
        """Let the orchestrator never see the answer: a time-out although all was done."""
        return self._with_answer(MessageFault(lost=True))

    def delay_answer(self, by_ms: int) -> Self:
        """Deliver the answer so much later."""
        return self._with_answer(MessageFault(delay_ms=by_ms))

    def repeat_answer(self, after_ms: int = 0) -> Self:
        """Deliver the answer twice."""
        return self._with_answer(MessageFault(copies=(after_ms,)))

    def crash(self, when: Crash = Crash.AFTER_CALL) -> Self:
        """Kill the participant between intent and receipt; another takes over."""
        self.call |= CallFault(crash=when)
        return self

    def take(self, ms: int) -> Self:
        """Let the call of an external step take so long: its effect at once, its receipt then."""
        self.call |= CallFault(slow_ms=ms)
        return self

    def call_back(self, outcome: Succeeded | Rejected, after_ms: int = 1_000) -> Self:
        """Let the outside report this some time after the step has answered UNKNOWN."""
        self.call |= CallFault(callback=(after_ms, outcome))
        return self

    def names(self, message: Place) -> bool:
        """Return whether this is the place of a message or call."""
        return (
            self.step in {message.step, message.activation}
            and self.phase is message.phase
            and self.target is message.target
            and self.attempt in {None, message.attempt}
        )

    def __str__(self) -> str:
        about = f" of {self.target}" if self.target else ""
        return f"{self.step}: {self.phase}{about} #{self.attempt or 'any'}"

    def _with_command(self, fault: MessageFault) -> Self:
        self.command |= fault
        return self

    def _with_answer(self, fault: MessageFault) -> Self:
        self.answer |= fault
        return self


class Script:
    """All faults of a test; the same script for the kit in memory and for a real network."""

    def __init__(self) -> None:
        self._places: list[At] = []

    def on(
        self,
        step: str,
        phase: Phase | str = Phase.EXECUTE,
        attempt: int | None = 1,
        target: Phase | str | None = None,
    ) -> At:
        """Name a place by its step (or activation), phase, attempt; RESOLVE is about EXECUTE."""
        asked = Phase(phase)
        about = Phase(target) if target is not None else None
        if asked is Phase.RESOLVE and about is None:
            about = Phase.EXECUTE
        place = At(step, asked, attempt, about)
        self._places.append(place)
        return place

    @property
    def unused(self) -> tuple[str, ...]:
        """Places that nothing has come to: a fault there has not happened."""
        return tuple(str(place) for place in self._places if not place.used)

    def about_command(self, command: Command) -> MessageFault:
        """Return what the network does to this command, the first time that it is sent."""
        found = _CALM
        for place in self._meant(command, "command"):
            found |= place.command
        return found

    def about_answer(self, answer: Result) -> MessageFault:
        """Return what the network does to this answer, the first time that one is sent."""
        found = _CALM
        for place in self._meant(answer, "answer"):
            found |= place.answer
        return found

    def about_call(self, command: Command | Context) -> CallFault:
        """Return what happens while this command is handled; it crashes only once."""
        found = _HEALTHY
        for place in self._places:
            if place.names(command):
                first = _first(place, command, "call")
                found |= place.call if first else replace(place.call, crash=None, slow_ms=0)
        return found

    def _meant(self, message: Place, what: str) -> list[At]:
        return [
            place for place in self._places if place.names(message) and _first(place, message, what)
        ]


def _first(place: At, message: Place, what: str) -> bool:
    use = (message.saga_id, what, message.attempt)
    if use in place.used:
        return False
    place.used.add(use)
    return True
