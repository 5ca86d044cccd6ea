"""What holds over all that was said, whoever said it when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sagabus_conformance.case import Case
from sagabus_conformance.errors import Breach
from sagabus_conformance.guarantees import Guarantee
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_messages import Result

__all__ = ["Trouble", "audit_effects", "audit_traffic"]

Trouble = tuple[Case, Breach]


def audit_traffic(cases: Sequence[Case]) -> Iterator[Trouble]:
    """Yield what the answers of these sagas break."""
    for case in cases:
        for breach in (
            *_unreadable(case),
            *_misnamed(case),
            *_changed_events(case),
            *_contradictions(case),
        ):
            yield case, breach


def audit_effects(cases: Sequence[Case], counts: Mapping[str, int]) -> Iterator[Trouble]:
    """Yield the effects that were applied too often, or not although it was said."""
    for case in cases:
        for bound in case.bounds.values():
            times = counts.get(bound.effect_id, 0)
            if not bound.least <= times <= bound.most:
                wanted = (
                    f"{bound.least} to {bound.most}" if bound.least < bound.most else bound.most
                )
                yield (
                    case,
                    Breach(
                        bound.guarantee,
                        f"effect {bound.effect_id} was applied {times} times, not {wanted}",
                    ),
                )


def _unreadable(case: Case) -> Iterator[Breach]:
    for heard in case.box.heard:
        if heard.problem is not None:
            yield Breach(Guarantee.WELL_FORMED, heard.problem)


def _misnamed(case: Case) -> Iterator[Breach]:
    for result in case.box.results:
        command = case.commands.get(result.command_id)
        if command is None:
            yield case.stray(result)
            continue
        for name in ("step", "activation", "definition_digest", "phase", "target", "attempt"):
            if getattr(result, name) != getattr(command, name):
                yield Breach(
                    Guarantee.NAMED,
                    f"`{name}` is {getattr(result, name)}, the command said "
                    f"{getattr(command, name)}",
                )


def _changed_events(case: Case) -> Iterator[Breach]:
    first: dict[str, tuple[bytes | None, int]] = {}
    for heard in case.box.heard:
        if heard.meta is None:
            continue
        now = (heard.record.value, heard.meta.ce_time_ms)
        if first.setdefault(heard.meta.ce_id, now) != now:
            yield Breach(
                Guarantee.SAME_EVENT,
                f"event {heard.meta.ce_id} came twice with different body or ce_time",
            )


def _contradictions(case: Case) -> Iterator[Breach]:
    seen: dict[str, set[bool]] = {}
    for result in case.box.results:
        fact = None if case.profile.retriable else _fact(result)
        if fact is not None:
            seen.setdefault(result.activation, set()).add(fact)
    for activation, facts in seen.items():
        if len(facts) > 1:
            yield Breach(
                Guarantee.NO_CONTRADICTION, f"{activation} was told to have happened, and not to"
            )


def _fact(result: Result) -> bool | None:
    """Return whether an answer says that the forward effect happened; None: it does not say."""
    terminal = result.terminal_status
    if result.phase is Phase.CANCEL and terminal in {
        TerminalStatus.SUCCEEDED,
        TerminalStatus.REJECTED,
    }:
        return terminal is TerminalStatus.SUCCEEDED
    if result.status is ResultStatus.CANCEL_CONFIRMED:
        return False
    forward = result.phase is Phase.EXECUTE or result.target is Phase.EXECUTE
    if forward and result.status in {ResultStatus.SUCCEEDED, ResultStatus.REJECTED}:
        return result.status is ResultStatus.SUCCEEDED
    return None
