"""Scripted steps: what stands for the steps of other teams, and behaves like a correct participant.

The books keep the truth: what was applied, undone, and forbidden for ever. So a RESOLVE or CANCEL
that is not scripted is answered honestly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from pydantic import BaseModel, ConfigDict

from sagabus_core.vocabulary import Phase, TerminalStatus
from sagabus_participant import (
    AlreadyTerminal,
    Cancelled,
    Compensated,
    Confirmed,
    Context,
    Executed,
    ExecutedLocally,
    ExternalContext,
    ExternalStep,
    Halted,
    LocalContext,
    LocalStep,
    Pending,
    Rejected,
    Resolved,
    Succeeded,
    Undone,
    Unknown,
)
from sagabus_participant.outcomes import Output
from sagabus_testkit.memory.errors import KitError

__all__ = [
    "HONEST",
    "Act",
    "Acts",
    "Anything",
    "Books",
    "Honest",
    "InDoubt",
    "ScriptedLocal",
    "ScriptedRetriable",
    "ScriptedStep",
]


class Honest(StrEnum):
    """Answer by what the books say."""

    HONEST = "honest"


HONEST: Final = Honest.HONEST


@dataclass(frozen=True, slots=True)
class InDoubt:
    """Apply the effect, and answer UNKNOWN: the outside did it and its answer was lost."""

    output: Output = None


Act: TypeAlias = (
    Succeeded
    | Rejected
    | Unknown
    | Halted
    | Confirmed
    | AlreadyTerminal
    | Pending
    | InDoubt
    | Honest
    | Exception
)
"""What a scripted handler does once: an answer, or an exception that it raises."""


@dataclass(frozen=True, slots=True)
class Acts:
    """What each handler of a step does, call by call; the last act repeats."""

    execute: Sequence[Act] = (Succeeded(),)
    compensate: Sequence[Act] = (Succeeded(),)
    cancel: Sequence[Act] = (HONEST,)
    resolve: Sequence[Act] = (HONEST,)


@dataclass(slots=True)
class Books:
    """The truth about every effect, by idempotency key of the forward effect."""

    applied: dict[str, Succeeded] = field(default_factory=dict)
    refused: dict[str, Rejected] = field(default_factory=dict)
    undone: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)
    turns: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def standing(self) -> int:
        """How many effects are applied and not undone."""
        return len(self.applied.keys() - self.undone)

    def next_act(self, key: str, handler: str, acts: Sequence[Act]) -> Act:
        """Return what this call does."""
        turn = self.turns[key, handler]
        self.turns[key, handler] += 1
        act = acts[min(turn, len(acts) - 1)]
        if isinstance(act, Exception):
            raise act
        return act


class Anything(BaseModel):
    """The input of a scripted step: whatever the definition sends."""

    model_config = ConfigDict(extra="allow", frozen=True)


class _Scripted:
    """What the scripted steps share; `part_of` finds the acts and the books of a call."""

    def __init__(self, part_of: Callable[[Context], tuple[Acts, Books]]) -> None:
        self._part_of = part_of

    def _execute(self, ctx: Context, *, retriable: bool = False) -> Executed:
        key, (acts, books) = ctx.execute_key, self._part_of(ctx)
        if key in books.forbidden:
            return Rejected("forbidden", "the key was fenced before")
        if (known := books.applied.get(key) or books.refused.get(key)) is not None:
            return known
        act = books.next_act(key, "execute", acts.execute)
        match act:
            case Succeeded():
                books.applied[key] = act
            case InDoubt(output):
                books.applied[key] = Succeeded(output)
                return Unknown("answer_lost")
            case Rejected() if not retriable:
                books.refused[key] = act
            case Rejected() | Unknown() | Halted():
                pass
            case _:
                raise _unfit("execute", act)
        return act

    def _compensate(self, ctx: Context) -> Compensated:
        key, (acts, books) = ctx.execute_key, self._part_of(ctx)
        act = books.next_act(key, "compensate", acts.compensate)
        match act:
            case Succeeded():
                books.undone.add(key)
            case InDoubt():
                books.undone.add(key)
                return Unknown("answer_lost")
            case Unknown() | Halted():
                pass
            case _:
                raise _unfit("compensate", act)
        return act

    def _cancel(self, ctx: Context) -> Cancelled:
        key, (acts, books) = ctx.execute_key, self._part_of(ctx)
        act = books.next_act(key, "cancel", acts.cancel)
        if isinstance(act, Confirmed):
            books.forbidden.add(key)
        if isinstance(act, Confirmed | AlreadyTerminal | Pending):
            return act
        if not isinstance(act, Honest):
            raise _unfit("cancel", act)
        if (done := books.applied.get(key)) is not None:
            return AlreadyTerminal(TerminalStatus.SUCCEEDED, done.output)
        if (refused := books.refused.get(key)) is not None:
            return AlreadyTerminal(TerminalStatus.REJECTED, reason=refused.reason)
        books.forbidden.add(key)
        return Confirmed()

    def _resolve(self, ctx: Context) -> Resolved:
        key, (acts, books) = ctx.execute_key, self._part_of(ctx)
        act = books.next_act(key, f"resolve {ctx.target}", acts.resolve)
        if isinstance(act, Succeeded | Rejected | Unknown | Halted):
            return act
        if not isinstance(act, Honest):
            raise _unfit("resolve", act)
        if ctx.target is Phase.COMPENSATE or ctx.phase is Phase.COMPENSATE:
            return Succeeded() if key in books.undone else Rejected("not_undone")
        known = books.applied.get(key) or books.refused.get(key)
        if known is None:
            books.forbidden.add(key)
        return known or Rejected("never_applied", "nothing was applied, and never will be")


class ScriptedStep(_Scripted, ExternalStep[Anything]):
    """An external step with every handler."""

    async def execute(self, ctx: ExternalContext, order: Anything) -> Executed:
        """Do the next act."""
        del order
        return self._execute(ctx)

    async def compensate(self, ctx: ExternalContext) -> Compensated:
        """Do the next act."""
        return self._compensate(ctx)

    async def cancel(self, ctx: ExternalContext) -> Cancelled:
        """Do the next act; honestly: forbid what was not applied."""
        return self._cancel(ctx)

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        """Do the next act; honestly: tell what was applied, forbid what was not."""
        return self._resolve(ctx)


class ScriptedRetriable(_Scripted, ExternalStep[Anything]):
    """An external step behind a pivot."""

    async def execute(self, ctx: ExternalContext, order: Anything) -> Executed:
        """Do the next act."""
        del order
        return self._execute(ctx, retriable=True)


class ScriptedLocal(_Scripted, LocalStep[Anything]):
    """A local step: the SDK answers CANCEL and RESOLVE."""

    async def execute(self, ctx: LocalContext, order: Anything) -> ExecutedLocally:
        """Do the next act."""
        del order
        answer = self._execute(ctx)
        if isinstance(answer, Unknown):
            raise _unfit("execute of a local step", answer)
        return answer

    async def compensate(self, ctx: LocalContext) -> Undone:
        """Do the next act."""
        answer = self._compensate(ctx)
        if isinstance(answer, Unknown):
            raise _unfit("compensate of a local step", answer)
        return answer


def _unfit(handler: str, act: object) -> KitError:
    return KitError("act_does_not_fit", f"{act!r} is no answer of {handler}")
