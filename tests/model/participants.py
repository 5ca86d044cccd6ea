"""A correct participant, one per activation, as the SDK promises it (sdk.md), with its truth.

`done` is what became of the forward effect, `undone` what became of its compensation:

    -  nothing yet            F  fenced: no later EXECUTE can start     R  rejected for good
    S  happened, recorded     A  in doubt, and it did happen            N  in doubt, it did not
    a  halted, it did happen  n  halted, it did not

Nobody but the model knows the difference of A and N, or of a and n. Definitive outcomes are
replayed for every attempt, UNKNOWN for the same attempt; RESOLVE is evaluated anew; HALTED opens
again only for another recovery operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tests.model.messages import Answer, Command

from sagabus_core.engine import Channel

__all__ = ["Part", "Participant", "Reply", "Traits", "happened", "undone"]


@dataclass(frozen=True, slots=True)
class Traits:
    """What this participant may choose: the words of `forward` (S R U H) and of `undo` (S U H).

    `lazy`: it may answer a CANCEL with RESOLUTION_PENDING, a RESOLVE with UNKNOWN, before it has
    seen the EXECUTE. `callback`: it may find out by itself what became of an effect in doubt.
    """

    forward: str = "SRU"
    undo: str = "SU"
    retriable: bool = False
    lazy: bool = True
    callback: bool = True


class Part(NamedTuple):
    """State of one participant; `asked` and `undo_asked` are the attempts left in doubt."""

    done: str = "-"
    asked: int = 0
    halted_under: str | None = None
    undone: str = "-"
    undo_asked: int = 0
    undo_halted_under: str | None = None


Reply: TypeAlias = tuple[Part, str | None]
"""What it becomes, and the word that it answers (None: it stays silent)."""


def happened(part: Part) -> bool:
    """Whether the forward effect is real."""
    return part.done in "SAa"


def undone(part: Part) -> bool:
    """Whether the compensation is real."""
    return part.undone in "SAa"


class Participant:
    """The behaviour; a broken one, for the tests of the checker, overrides a method."""

    def __init__(self, traits: Traits) -> None:
        self.traits = traits
        self._handlers: Mapping[Channel, Callable[[Part, Command], Iterator[Reply]]] = {
            Channel.EXECUTE: self.execute,
            Channel.CANCEL: self.cancel,
            Channel.COMPENSATE: self.compensate,
            Channel.RESOLVE_EXECUTE: self.resolve,
            Channel.RESOLVE_COMPENSATE: self.resolve_undo,
        }

    def handle(self, part: Part, command: Command) -> list[Reply]:
        """Return every way in which a correct participant may take a command."""
        return list(dict.fromkeys(self._handlers[command.channel](part, command)))

    def execute(self, part: Part, command: Command) -> Iterator[Reply]:
        """Do it, once; a fenced or rejected one answers REJECTED for ever."""
        match part.done:
            case "F" | "R":
                yield part, "R"
            case "S":
                yield part, "S"
            case "A" | "N" if command.attempt == part.asked:
                yield part, "U"
            case "A":
                yield part._replace(done="S", asked=0), "S"
                yield part._replace(asked=command.attempt), "U"
            case "a" | "n" if not self._opens(command, part.halted_under):
                yield part, "H"
            case "a":
                yield part._replace(done="S", halted_under=None), "S"
            case _:
                yield from self.begin(part._replace(halted_under=None), command)

    def begin(self, part: Part, command: Command) -> Iterator[Reply]:
        """Call the business code: anything that the step may answer."""
        if "S" in self.traits.forward:
            yield part._replace(done="S", asked=0), "S"
        if "R" in self.traits.forward:
            # A retriable's REJECTED is not final: the next attempt runs again.
            final = "-" if self.traits.retriable else "R"
            yield part._replace(done=final, asked=0), "R"
        if "U" in self.traits.forward:
            yield part._replace(done="A", asked=command.attempt), "U"
            yield part._replace(done="N", asked=command.attempt), "U"
        if "H" in self.traits.forward:
            yield part._replace(done="n", asked=0, halted_under=command.operation), "H"
            yield part._replace(done="a", asked=0, halted_under=command.operation), "H"

    def cancel(self, part: Part, command: Command) -> Iterator[Reply]:
        """Fence and confirm, tell what is final, or say that it cannot tell yet."""
        match part.done:
            case "F":
                yield part, "C"
            case "R":
                yield part, "TR"
            case "S":
                yield part, "TS"
            case "-":
                yield self.fenced(part), "C"
                if self.traits.lazy:
                    yield part, "P"
            case "A" | "N":
                yield part, "P"
                yield self._found(part, "TS", "C")
            case _ if self._opens(command, part.halted_under):
                yield self._found(part, "TS", "C")
            case _:
                yield part, "TH"

    def resolve(self, part: Part, command: Command) -> Iterator[Reply]:
        """Say what became of the EXECUTE; REJECTED only behind the fence."""
        match part.done:
            case "F" | "R":
                yield part, "R"
            case "S":
                yield part, "S"
            case "-":
                yield self.rejecting(part), "R"
                if self.traits.lazy:
                    yield part, "U"
            case "A" | "N":
                yield part, "U"
                yield self._found(part, "S", "R")
                if "H" in self.traits.forward:
                    halted = part.done.lower()
                    yield part._replace(done=halted, halted_under=command.operation), "H"
            case _ if self._opens(command, part.halted_under):
                yield self._found(part, "S", "R")
            case _:
                yield part, "H"

    def compensate(self, part: Part, command: Command) -> Iterator[Reply]:
        """Undo what succeeded, once."""
        if part.done != "S":
            yield part, "H"  # nothing_to_compensate
            return
        match part.undone:
            case "S":
                yield part, "S"
            case "A" | "N" if command.attempt == part.undo_asked:
                yield part, "U"
            case "A":
                yield part._replace(undone="S", undo_asked=0), "S"
                yield part._replace(undo_asked=command.attempt), "U"
            case "a" | "n" if not self._opens(command, part.undo_halted_under):
                yield part, "H"
            case "a":
                yield part._replace(undone="S", undo_halted_under=None), "S"
            case _:
                yield from self.begin_undo(part._replace(undo_halted_under=None), command)

    def begin_undo(self, part: Part, command: Command) -> Iterator[Reply]:
        """Call the business code of the compensation."""
        yield part._replace(undone="S", undo_asked=0), "S"
        if "U" in self.traits.undo:
            yield part._replace(undone="A", undo_asked=command.attempt), "U"
            yield part._replace(undone="N", undo_asked=command.attempt), "U"
        if "H" in self.traits.undo:
            under = command.operation
            yield part._replace(undone="n", undo_asked=0, undo_halted_under=under), "H"

    def resolve_undo(self, part: Part, command: Command) -> Iterator[Reply]:
        """Say what became of the COMPENSATE; REJECTED means: not done, ask again."""
        match part.undone:
            case "S":
                yield part, "S"
            case "-":
                yield part, "R"
            case "A" | "N":
                yield part, "U"
                yield self._found_undo(part)
                if "H" in self.traits.undo:
                    halted, under = part.undone.lower(), command.operation
                    yield part._replace(undone=halted, undo_halted_under=under), "H"
            case _ if self._opens(command, part.undo_halted_under):
                yield self._found_undo(part)
            case _:
                yield part, "H"

    def fenced(self, part: Part) -> Part:
        """Block every later EXECUTE, for a CANCEL_CONFIRMED."""
        return part._replace(done="F", asked=0, halted_under=None)

    def rejecting(self, part: Part) -> Part:
        """Block every later EXECUTE, for a RESOLVE(EXECUTE) REJECTED."""
        return self.fenced(part)

    def call_back(self, path: str, part: Part) -> Iterator[tuple[Part, Answer]]:
        """Find out by itself, and upgrade the UNKNOWN of that attempt."""
        if not self.traits.callback:
            return
        if part.done == "A":
            yield part._replace(done="S", asked=0), Answer(path, Channel.EXECUTE, part.asked, "S")
        if part.done == "N" and not self.traits.retriable:
            yield part._replace(done="R", asked=0), Answer(path, Channel.EXECUTE, part.asked, "R")
        if part.undone == "A":
            settled = part._replace(undone="S", undo_asked=0)
            yield settled, Answer(path, Channel.COMPENSATE, part.undo_asked, "S")

    @staticmethod
    def _opens(command: Command, halted_under: str | None) -> bool:
        return command.operation is not None and command.operation != halted_under

    @staticmethod
    def _found_undo(part: Part) -> Reply:
        real = undone(part)
        settled = part._replace(undone="S" if real else "-", undo_asked=0, undo_halted_under=None)
        return settled, "S" if real else "R"

    def _found(self, part: Part, yes: str, no: str) -> Reply:
        if happened(part):
            return part._replace(done="S", asked=0, halted_under=None), yes
        return (self.rejecting(part) if no == "R" else self.fenced(part)), no
