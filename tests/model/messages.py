"""What travels between the engine and the participants, as small hashable values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from sagabus_core.engine import Channel, ResultReceived
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import ResultStatus, TerminalStatus

__all__ = ["WORDS", "Answer", "Command", "Message", "as_result"]


@dataclass(frozen=True, slots=True)
class Command:
    """One attempt on its way to a participant."""

    path: str
    channel: Channel
    attempt: int
    operation: str | None

    def __str__(self) -> str:
        again = f" ({self.operation})" if self.operation else ""
        return f"{self.channel.name} {self.path} #{self.attempt}{again}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A participant's answer to one attempt, on its way back. `word` is a key of `WORDS`."""

    path: str
    channel: Channel
    attempt: int
    word: str

    def __str__(self) -> str:
        status, terminal = WORDS[self.word]
        found = f" {terminal}" if terminal else ""
        return f"{self.channel.name} {self.path} #{self.attempt}: {status}{found}"


Message: TypeAlias = Command | Answer

WORDS: Final[dict[str, tuple[ResultStatus, TerminalStatus | None]]] = {
    "S": (ResultStatus.SUCCEEDED, None),
    "R": (ResultStatus.REJECTED, None),
    "U": (ResultStatus.UNKNOWN, None),
    "H": (ResultStatus.HALTED, None),
    "C": (ResultStatus.CANCEL_CONFIRMED, None),
    "P": (ResultStatus.RESOLUTION_PENDING, None),
    "TS": (ResultStatus.ALREADY_TERMINAL, TerminalStatus.SUCCEEDED),
    "TR": (ResultStatus.ALREADY_TERMINAL, TerminalStatus.REJECTED),
    "TH": (ResultStatus.ALREADY_TERMINAL, TerminalStatus.HALTED),
}


def as_result(answer: Answer, output: Payload | None) -> ResultReceived:
    """Return the event that the orchestrator makes of an answer."""
    status, terminal = WORDS[answer.word]
    forward = answer.channel in {Channel.EXECUTE, Channel.CANCEL, Channel.RESOLVE_EXECUTE}
    return ResultReceived(
        event_id=str(answer),
        activation=answer.path,
        phase=answer.channel.phase,
        attempt=answer.attempt,
        status=status,
        target=answer.channel.target,
        terminal_status=terminal,
        output=output if forward and answer.word in {"S", "TS"} else None,
    )
