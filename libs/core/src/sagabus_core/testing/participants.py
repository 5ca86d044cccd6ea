"""Correct participants, with the ground truth of what really happened: a model for checkers.

What engine.md and the SDK promise about a participant is kept here to the letter: one effect per
activation, definitive outcomes replayed, negative answers only behind a durable fence, no expired
command started, HALTED re-opened only by another recovery operation id.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sagabus_core.engine.effects import IssueCommand
from sagabus_core.engine.vocabulary import Channel

__all__ = ["Effect", "World"]


@dataclass(slots=True)
class Effect:
    """The truth about one activation at its participant."""

    outcome: str | None = None
    fenced: bool = False
    applied: int = 0
    undone: int = 0
    halted_under: str | None = None
    undo_halted_under: str | None = None
    halted: bool = False
    undo_halted: bool = False


@dataclass(slots=True)
class World:
    """All participants. `wish` says what a handler would like to do; the guarantees decide.

    Answers are written like `SagaDriver.answer` takes them; None means: no answer at all.
    """

    retriable: frozenset[str] = frozenset()
    effects: dict[str, Effect] = field(default_factory=dict)

    def effect(self, path: str) -> Effect:
        """Return the truth about an activation."""
        return self.effects.setdefault(path, Effect())

    def handle(self, command: IssueCommand, wish: str, now_at_ms: int) -> str | None:
        """Handle one delivery of a command and return the answer."""
        if now_at_ms >= command.expires_at_ms:
            return None
        effect = self.effect(command.activation)
        match command.channel:
            case Channel.EXECUTE:
                return self._execute(effect, command, wish)
            case Channel.CANCEL:
                return self._cancel(effect, wish)
            case Channel.RESOLVE_EXECUTE:
                return self._resolve(effect, wish)
            case Channel.COMPENSATE:
                return self._compensate(effect, command, wish)
            case Channel.RESOLVE_COMPENSATE:
                return _resolve_undo(effect, wish)

    def _execute(self, effect: Effect, command: IssueCommand, wish: str) -> str:
        if effect.fenced or effect.outcome is not None:
            return effect.outcome or "REJECTED"
        if effect.halted and command.recovery_operation_id in {None, effect.halted_under}:
            return "HALTED"
        effect.halted = False
        if wish == "SUCCEEDED":
            effect.applied, effect.outcome = effect.applied + 1, "SUCCEEDED"
        elif wish == "REJECTED" and command.activation not in self.retriable:
            effect.outcome = "REJECTED"
        elif wish == "HALTED":
            effect.halted, effect.halted_under = True, command.recovery_operation_id
        return wish

    def _cancel(self, effect: Effect, wish: str) -> str:
        if effect.outcome is not None:
            return f"ALREADY_TERMINAL:{effect.outcome}"
        if wish == "UNKNOWN":
            return "RESOLUTION_PENDING"
        if effect.halted and wish == "HALTED":
            return "ALREADY_TERMINAL:HALTED"
        effect.fenced = True
        return "CANCEL_CONFIRMED"

    def _resolve(self, effect: Effect, wish: str) -> str:
        if effect.outcome is not None:
            return effect.outcome
        if wish in {"UNKNOWN", "HALTED"}:
            return wish
        effect.fenced = True
        return "REJECTED"

    def _compensate(self, effect: Effect, command: IssueCommand, wish: str) -> str:
        if effect.outcome != "SUCCEEDED":
            return "HALTED"
        if effect.undone:
            return "SUCCEEDED"
        if effect.undo_halted and command.recovery_operation_id in {
            None,
            effect.undo_halted_under,
        }:
            return "HALTED"
        effect.undo_halted = False
        if wish == "HALTED":
            effect.undo_halted, effect.undo_halted_under = True, command.recovery_operation_id
            return "HALTED"
        if wish == "UNKNOWN":
            return "UNKNOWN"
        effect.undone += 1
        return "SUCCEEDED"


def _resolve_undo(effect: Effect, wish: str) -> str:
    if effect.undone:
        return "SUCCEEDED"
    return wish if wish in {"UNKNOWN", "HALTED"} else "REJECTED"
