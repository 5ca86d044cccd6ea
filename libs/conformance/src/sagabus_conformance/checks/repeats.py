"""One effect and one outcome per effect id: repeats, bursts, reordered and stale attempts."""

from __future__ import annotations

from typing import Final

from sagabus_conformance.case import Case
from sagabus_conformance.checks.registry import Check, demand, same_outcome, told
from sagabus_conformance.errors import Breach
from sagabus_conformance.guarantees import Guarantee
from sagabus_conformance.profile import Profile
from sagabus_core.vocabulary import Phase, ResultStatus

__all__ = ["CHECKS"]

ONE: Final = Guarantee.ONE_EFFECT


async def repeated(case: Case) -> None:
    """Send the same record four times; a new attempt behind it proves that they were passed."""
    command, first = await case.succeed()
    await case.send(command, command, command)
    second = await case.settle(case.command(Phase.EXECUTE, 2))
    same_outcome(first, second, ONE)
    await case.send(command)
    same_outcome(first, await case.settle(case.command(Phase.EXECUTE, 3)), ONE)
    for result in case.box.results:
        if result.status is not ResultStatus.UNKNOWN and result.phase is Phase.EXECUTE:
            same_outcome(first, result, ONE)


async def reordered(case: Case) -> None:
    """Write attempts 3, 1, 2 and a repeat of 1 at once: stale ones come late."""
    attempts = [case.command(Phase.EXECUTE, attempt) for attempt in (3, 1, 2)]
    case.bound(attempts[0], 1, 1, ONE)
    await case.send(*attempts, attempts[1])
    first, *others = [await case.settle(each, send=False) for each in attempts]
    for other in others:
        same_outcome(first, other, ONE)


async def two_activations(case: Case) -> None:
    """Two activations of the step in one saga, one of them closed by a fence where possible."""
    profile = case.profile
    if not profile.retriable:
        answer = await case.ask(case.resolve(Phase.EXECUTE, activation="first.visit"))
        if answer.status is ResultStatus.REJECTED:
            closed = case.command(Phase.EXECUTE, activation="first.visit")
            case.bound(closed, 0, 0, Guarantee.APART)
    await case.succeed("second.visit", Guarantee.APART)
    await case.succeed("third.visit", Guarantee.APART)


async def rejected(case: Case) -> None:
    """Be refused for business reasons, and hear the same whoever asks."""
    profile = case.profile
    template = profile.rejected or profile.accepted
    payload = template.for_key(case.name, profile.schema_id)
    commands = [case.command(Phase.EXECUTE, n, payload=payload) for n in (1, 2)]
    case.bound(commands[0], 0, 0, Guarantee.REJECTED_FINAL)
    for command in commands:
        demand(await case.settle(command), Guarantee.REJECTED_FINAL, ResultStatus.REJECTED)
    resolved = await case.ask(case.resolve(Phase.EXECUTE))
    demand(resolved, Guarantee.REJECTED_FINAL, ResultStatus.REJECTED)
    if profile.cancellable:
        late = await case.ask(case.command(Phase.CANCEL))
        if (late.status, late.terminal_status) != (ResultStatus.ALREADY_TERMINAL, "REJECTED"):
            raise Breach(Guarantee.REJECTED_FINAL, f"CANCEL answered {told(late)}")


async def found_out(case: Case) -> None:
    """Find out an outcome that is UNKNOWN at first, and see it stay."""
    profile = case.profile
    template = profile.unknown or profile.accepted
    payload = template.for_key(case.name, profile.schema_id)
    command = case.command(Phase.EXECUTE, payload=payload)
    case.bound(command, 0, 1, ONE)
    outcome = await case.settle(command)
    again = await case.settle(case.command(Phase.EXECUTE, 2, payload=payload))
    demand(again, Guarantee.UNKNOWN_CONVERGES, outcome.status)


def _needs_rejected(profile: Profile) -> str | None:
    if profile.retriable:
        return "a refusal of a retriable step is not final"
    return None if profile.rejected else "give a payload that is refused: --rejected-payload"


def _needs_unknown(profile: Profile) -> str | None:
    if not profile.unknown_allowed:
        return None  # then EXECUTE must not answer UNKNOWN at all
    return None if profile.unknown else "give a payload in doubt at first: --unknown-payload"


CHECKS: Final = (
    Check("repeated", repeated, (ONE,)),
    Check("reordered", reordered, (ONE,)),
    Check("activations", two_activations, (Guarantee.APART,)),
    Check("rejected", rejected, (Guarantee.REJECTED_FINAL,), _needs_rejected),
    Check("unknown", found_out, (Guarantee.UNKNOWN_CONVERGES,), _needs_unknown),
)
