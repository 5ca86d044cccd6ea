"""COMPENSATE: only what succeeded, once; RESOLVE about it is honest and forbids nothing."""

from __future__ import annotations

from typing import Final

from sagabus_conformance.case import Case
from sagabus_conformance.checks.registry import Check, demand, same_outcome, told
from sagabus_conformance.errors import Breach
from sagabus_conformance.guarantees import Guarantee
from sagabus_conformance.profile import Profile
from sagabus_core.vocabulary import Phase, ResultStatus

__all__ = ["CHECKS"]

S: Final = ResultStatus


async def nothing_to_undo(case: Case) -> None:
    """COMPENSATE of what never happened; then of what was fenced."""
    only = Guarantee.UNDO_ONLY_SUCCESS
    await _refused(case, 1)
    answer = await case.ask(case.resolve(Phase.EXECUTE))
    if answer.status is S.REJECTED:
        await _refused(case, 2)
    undo = case.command(Phase.COMPENSATE)
    case.bound(undo, 0, 0, only)


async def _refused(case: Case, attempt: int) -> None:
    answer = await case.ask(case.command(Phase.COMPENSATE, attempt))
    demand(answer, Guarantee.UNDO_ONLY_SUCCESS, S.HALTED)
    if answer.reason_code != "nothing_to_compensate":
        raise Breach(Guarantee.UNDO_ONLY_SUCCESS, f"COMPENSATE answered {told(answer)}")


async def undo(case: Case) -> None:
    """EXECUTE, COMPENSATE, and both again."""
    once = Guarantee.UNDO_ONCE
    execute, first = await case.succeed()
    case.bound(execute, 0, 1, Guarantee.ONE_EFFECT)
    command = case.command(Phase.COMPENSATE)
    demand(await case.settle(command), once, S.SUCCEEDED)
    await case.send(command, command)
    demand(await case.settle(case.command(Phase.COMPENSATE, 2)), once, S.SUCCEEDED)
    late = await case.settle(case.command(Phase.EXECUTE, 2))
    same_outcome(first, late, Guarantee.ONE_EFFECT)


async def resolve_undo(case: Case) -> None:
    """RESOLVE(COMPENSATE) before the undo, and after it."""
    honest = Guarantee.UNDO_RESOLVED
    execute, _ = await case.succeed()
    case.bound(execute, 0, 1, Guarantee.ONE_EFFECT)
    demand(await case.ask(case.resolve(Phase.COMPENSATE)), honest, S.REJECTED, S.UNKNOWN)
    demand(await case.settle(case.command(Phase.COMPENSATE)), honest, S.SUCCEEDED)
    demand(await case.ask(case.resolve(Phase.COMPENSATE, 2)), honest, S.SUCCEEDED)
    demand(await case.ask(case.resolve(Phase.EXECUTE)), Guarantee.RESOLVE_TRUE, S.SUCCEEDED)


def _compensatable(profile: Profile) -> str | None:
    return None if profile.compensatable else "the step has nothing to undo"


CHECKS: Final = (
    Check("nothing-to-undo", nothing_to_undo, (Guarantee.UNDO_ONLY_SUCCESS,), _compensatable),
    Check("undo", undo, (Guarantee.UNDO_ONCE,), _compensatable),
    Check("resolve-undo", resolve_undo, (Guarantee.UNDO_RESOLVED,), _compensatable),
)
