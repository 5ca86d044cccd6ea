"""CANCEL and RESOLVE: before, after and beside the EXECUTE that they are about."""

from __future__ import annotations

from typing import Final

from sagabus_conformance.case import Case
from sagabus_conformance.checks.registry import Check, demand, same_outcome, told
from sagabus_conformance.errors import Breach, Inconclusive
from sagabus_conformance.guarantees import Guarantee
from sagabus_conformance.profile import Profile
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_messages import Command, Result

__all__ = ["CHECKS", "hold_fence"]

S: Final = ResultStatus
FENCED: Final = "fenced"


async def cancel_first(case: Case) -> None:
    """CANCEL overtakes EXECUTE: confirmed means closed."""
    fence = Guarantee.CANCEL_FENCES
    answer = await case.ask(case.command(Phase.CANCEL))
    demand(answer, fence, S.CANCEL_CONFIRMED, S.RESOLUTION_PENDING)
    if answer.status is S.RESOLUTION_PENDING:
        raise Inconclusive(
            "inconclusive", "CANCEL before anything answers RESOLUTION_PENDING: no fence to test"
        )
    await hold_fence(case, fence)
    again = await case.ask(case.command(Phase.CANCEL, 2))
    demand(again, fence, S.CANCEL_CONFIRMED)
    demand(await case.ask(case.resolve(Phase.EXECUTE)), fence, S.REJECTED)


async def resolve_first(case: Case) -> None:
    """RESOLVE overtakes EXECUTE: REJECTED means closed, UNKNOWN leaves it open."""
    fence = Guarantee.RESOLVE_FENCES
    answer = await case.ask(case.resolve(Phase.EXECUTE))
    if answer.status is S.SUCCEEDED:
        raise Breach(Guarantee.RESOLVE_TRUE, "RESOLVE tells SUCCEEDED although nothing was asked")
    demand(answer, fence, S.REJECTED, S.UNKNOWN)
    if answer.status is S.UNKNOWN:
        raise Inconclusive(
            "inconclusive", "RESOLVE before EXECUTE answers UNKNOWN: no fence to test"
        )
    await hold_fence(case, fence)
    demand(await case.ask(case.resolve(Phase.EXECUTE, 2)), fence, S.REJECTED)


async def hold_fence(case: Case, fence: Guarantee) -> None:
    """Try to get through a fence, by two late attempts and a repeat. Raises `Breach`."""
    late, later = case.command(Phase.EXECUTE), case.command(Phase.EXECUTE, 2)
    case.bound(late, 0, 0, fence)
    await case.send(late, late, later, note="late")
    for command in (late, later):
        answer = await case.hear(command)
        demand(answer, fence, S.REJECTED)
        if answer.reason_code != FENCED:
            raise Breach(fence, f"a blocked EXECUTE answered {told(answer)}, not `{FENCED}`")


async def cancel_after(case: Case) -> None:
    """CANCEL after success says that it is too late, and takes nothing back."""
    _, first = await case.succeed()
    answer = await case.ask(case.command(Phase.CANCEL))
    demand(answer, Guarantee.CANCEL_LATE, S.ALREADY_TERMINAL)
    if answer.terminal_status is not TerminalStatus.SUCCEEDED:
        raise Breach(Guarantee.CANCEL_LATE, f"terminal_status is {answer.terminal_status}")
    again = await case.settle(case.command(Phase.EXECUTE, 2))
    same_outcome(first, again, Guarantee.CANCEL_LATE)


async def resolve_after(case: Case) -> None:
    """RESOLVE after success tells it, with the output, as often as it is asked."""
    _, first = await case.succeed()
    for attempt in (1, 2):
        answer = await case.ask(case.resolve(Phase.EXECUTE, attempt))
        same_outcome(first, answer, Guarantee.RESOLVE_TRUE)


async def race(case: Case) -> None:
    """EXECUTE with CANCEL or RESOLVE right before or behind it, on several activations at once."""
    pairs = [_pair(case, f"race-{n}", n) for n in range(6)]
    order = [pair if n % 3 else reversed(pair) for n, pair in enumerate(pairs)]
    await case.send(*(command for pair in order for command in pair))
    for execute, question in pairs:
        answer = await case.hear(question)
        outcome = await _outcome(case, execute, answer)
        demand(outcome, Guarantee.NO_CONTRADICTION, S.SUCCEEDED, S.REJECTED)


def _pair(case: Case, activation: str, number: int) -> tuple[Command, Command]:
    execute = case.command(Phase.EXECUTE, activation=activation)
    if case.profile.cancellable and number % 2:
        question = case.command(Phase.CANCEL, activation=activation)
    else:
        question = case.resolve(Phase.EXECUTE, activation=activation)
    return execute, question


async def _outcome(case: Case, execute: Command, answer: Result) -> Result:
    """Return what became of an EXECUTE beside a question; the audit compares all answers."""
    own = await case.hear(execute)
    if own.status is not S.UNKNOWN:
        return own
    if answer.status in {S.SUCCEEDED, S.REJECTED}:
        return answer
    return await case.settle(execute, send=False)


def _not_retriable(profile: Profile) -> str | None:
    return "a retriable step is neither cancelled nor resolved" if profile.retriable else None


def _cancellable(profile: Profile) -> str | None:
    return None if profile.cancellable else "the step is not cancellable"


CHECKS: Final = (
    Check("cancel-first", cancel_first, (Guarantee.CANCEL_FENCES,), _cancellable),
    Check("cancel-after", cancel_after, (Guarantee.CANCEL_LATE,), _cancellable),
    Check("resolve-first", resolve_first, (Guarantee.RESOLVE_FENCES,), _not_retriable),
    Check("resolve-after", resolve_after, (Guarantee.RESOLVE_TRUE,), _not_retriable),
    Check("race", race, (Guarantee.NO_CONTRADICTION,), _not_retriable),
)
