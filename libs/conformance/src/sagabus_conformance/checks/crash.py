"""Kill -9 in the middle of a batch: nothing is lost, nothing happens twice, fences hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sagabus_conformance.case import Case
from sagabus_conformance.checks.fences import hold_fence
from sagabus_conformance.checks.registry import same_outcome
from sagabus_conformance.errors import Breach
from sagabus_conformance.guarantees import Guarantee
from sagabus_conformance.ports import Killer
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import Command, Result

__all__ = ["PROVES", "Crash"]

LOST: Final = Guarantee.KILL_LOSES_NOTHING
TWICE: Final = Guarantee.KILL_REPEATS_NOTHING
FENCES: Final = Guarantee.KILL_KEEPS_FENCES
PROVES: Final = (LOST, TWICE)
FENCED_SAGAS: Final = 3


@dataclass(slots=True)
class Crash:
    """`batch` sagas per kill; `opened` makes their cases. `troubles` gathers what broke.

    The first kill comes with the first answer, the batch being in work; later ones come when the
    batch has just been written.
    """

    killer: Killer
    opened: Callable[[str], Case]
    batch: int
    kills: int
    troubles: list[tuple[Case, Breach]] = field(default_factory=list)
    fences_held: bool = False

    async def run(self) -> None:
        """Kill and restart; raises only what ends the suite."""
        fenced = [self.opened(f"kill-fence-{n}") for n in range(FENCED_SAGAS)]
        closed = [case for case in fenced if await self._closed(case)]
        for number in range(1, self.kills + 1):
            cases = [self.opened(f"kill-{number}-{n}") for n in range(self.batch)]
            commands = [case.command(Phase.EXECUTE) for case in cases]
            await self._interrupt(cases, commands, wait=number == 1)
            pairs = zip(cases, commands, strict=True)
            await self._all((case, self._survives(case, command)) for case, command in pairs)
        await self._all((case, hold_fence(case, FENCES)) for case in closed)
        self.fences_held = bool(closed)

    async def _closed(self, case: Case) -> bool:
        if case.profile.retriable:
            return False
        try:
            answer = await case.ask(case.resolve(Phase.EXECUTE))
        except Breach as breach:
            self.troubles.append((case, breach))
            return False
        return answer.status is ResultStatus.REJECTED

    async def _interrupt(
        self, cases: Sequence[Case], commands: Sequence[Command], *, wait: bool
    ) -> None:
        asked = [(c.box, c.asked(command)) for c, command in zip(cases, commands, strict=True)]
        await cases[0].lab.send(asked)
        if wait:
            await _any_answer(cases)
        await self.killer.kill()
        await self.killer.restart()

    async def _survives(self, case: Case, command: Command) -> None:
        first = await case.hear(command, LOST)
        outcome = await case.settle(command, send=False)
        if outcome.status is ResultStatus.SUCCEEDED:
            case.bound(command, 1, 1, TWICE)
        again = await case.settle(case.command(Phase.EXECUTE, 2))
        for other in (again, *_definitive(case, first)):
            same_outcome(outcome, other, TWICE)

    async def _all(self, works: Iterable[tuple[Case, Awaitable[None]]]) -> None:
        listed = list(works)
        ended = await asyncio.gather(*(work for _, work in listed), return_exceptions=True)
        for (case, _), end in zip(listed, ended, strict=True):
            if isinstance(end, Breach):
                self.troubles.append((case, end))
            elif isinstance(end, BaseException):
                raise end


def _definitive(case: Case, first: Result) -> list[Result]:
    open_still = {ResultStatus.UNKNOWN, ResultStatus.RESOLUTION_PENDING}
    same_command = [r for r in case.box.results if r.command_id == first.command_id]
    return [r for r in same_command if r.status not in open_still]


async def _any_answer(cases: Sequence[Case]) -> None:
    """Wait for the first answer of many, or for the time that one may take."""
    deadline = time.monotonic() + cases[0].within_s
    while time.monotonic() < deadline:
        if any(case.box.results for case in cases):
            return
        waits = [asyncio.create_task(case.news(deadline)) for case in cases]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
