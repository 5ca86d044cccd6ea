"""Local calls that share one savepoint: cheap while all succeed, exact as soon as one does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from sagabus_participant.admission import Call
from sagabus_participant.calls import Calls
from sagabus_participant.dispatch import Due
from sagabus_participant.handling import Handling
from sagabus_participant.journal import Finding, Found
from sagabus_participant.session import Session
from sagabus_participant.settlement import Later

__all__ = ["MOST", "Together"]

MOST: Final = 512
"""Most calls that share a savepoint; not less than those of a transaction."""

CAUTION: Final = 0.3
"""Refusals to be expected in an attempt: each costs the repetition of what came before it."""
MEMORY: Final = 64
"""Over so many calls the share of refusals is averaged."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What calling several handlers in one savepoint came to; None stands for an expired command.

    Not `kept`: the savepoint was rolled back, and `findings` only say how far the attempt came.
    """

    findings: list[Finding | None]
    kept: bool


class Together:
    """Runs calls of different activations; one savepoint holds as many as usually all succeed.

    Only a success leaves anything behind. So where one call of an attempt does anything else, the
    attempt is rolled back wholly and its calls are repeated, each in a savepoint of its own: a
    handler may run twice, its effect stays one. How many calls share a savepoint follows from how
    the last ones went, which bounds the repeated work where refusals are common.
    """

    def __init__(self, calls: Calls, handling: Handling) -> None:
        self._calls = calls
        self._handling = handling
        self._refused = 0.0

    async def run(self, session: Session, dues: Sequence[Due]) -> list[Due]:
        """Call and settle; return what has to be called again later. The savepoint is open."""
        again: list[Due] = []
        dues = sorted(dues, key=_many_of)
        start = 0
        while start < len(dues):
            attempt = await self._attempt(session, dues[start : start + self._limit])
            tried = dues[start : start + len(attempt.findings)]
            start += len(tried)
            self._learn(attempt)
            if attempt.kept:
                again += self._settle(session, tried, attempt.findings)
            else:
                again += await self._one_by_one(session, tried)
        return again

    @property
    def _limit(self) -> int:
        """So many calls that most attempts have no refusal among them."""
        return MOST if self._refused < 1 / MOST else max(1, int(CAUTION / self._refused))

    def _learn(self, attempt: _Attempt) -> None:
        tried = len(attempt.findings)
        refused = not attempt.kept or (tried == 1 and not _succeeded(attempt.findings[0]))
        self._refused += (refused / tried - self._refused) * min(1.0, tried / MEMORY)

    async def _attempt(self, session: Session, dues: Sequence[Due]) -> _Attempt:
        findings: list[Finding | None] = []
        if len(dues) == 1:
            findings.append(await self._call(session, dues[0]))
            return _Attempt(findings, kept=True)
        for part in _parts(dues):
            tried = await self._part(session, part)
            findings += tried.findings
            if not tried.kept:
                await self._calls.undo(session.conn)
                return _Attempt(findings, kept=False)
        kept = await self._calls.keep(session.conn)
        if not kept:
            await self._calls.undo(session.conn)
        return _Attempt(findings, kept)

    async def _part(self, session: Session, dues: Sequence[Due]) -> _Attempt:
        """Call what has not expired."""
        expired = [_expired(session, due) for due in dues]
        live = [due for due, late in zip(dues, expired, strict=True) if not late]
        found = await self._calls.attempt(session.conn, live)
        if found is None or not all(one.kind is Found.SUCCEEDED for one in found):
            return _Attempt([None] * len(dues), kept=False)
        answers = iter(found)
        return _Attempt([None if late else next(answers) for late in expired], kept=True)

    async def _one_by_one(self, session: Session, dues: Sequence[Due]) -> list[Due]:
        again: list[Due] = []
        for due in dues:
            again += self._settle(session, [due], [await self._call(session, due)])
        return again

    async def _call(self, session: Session, due: Due) -> Finding | None:
        return None if _expired(session, due) else await self._calls.call(session.conn, due)

    def _settle(
        self, session: Session, dues: Sequence[Due], findings: Sequence[Finding | None]
    ) -> list[Due]:
        again: list[Due] = []
        for due, finding in zip(dues, findings, strict=True):
            if finding is None:
                self._handling.ignore(session, due.order)
            elif isinstance(self._handling.settle(session, due, finding), Later):
                again.append(due)
        return again


def _succeeded(finding: Finding | None) -> bool:
    return finding is not None and finding.kind is Found.SUCCEEDED


def _parts(dues: Sequence[Due]) -> Iterator[Sequence[Due]]:
    """Cut into what one call of a handler takes; commands of `execute_many` stand by their step."""
    for step, part in groupby(dues, _many_of):
        if step:
            yield list(part)
        else:
            yield from ([due] for due in part)


def _many_of(due: Due) -> str:
    """Return the step that executes many such commands at once, or nothing."""
    step = due.order.step
    return step.name if step.executes_many and due.call is Call.EXECUTE else ""


def _expired(session: Session, due: Due) -> bool:
    """Say whether the command has expired while others were handled: it is never started then."""
    return session.now_ms >= due.order.ask.expires_at_ms
