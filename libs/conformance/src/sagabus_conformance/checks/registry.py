"""A check: a conversation about one saga, and the guarantees that it proves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from sagabus_conformance.case import Case
from sagabus_conformance.errors import Breach
from sagabus_conformance.guarantees import Guarantee
from sagabus_conformance.profile import Profile
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import Result

__all__ = ["Check", "Need", "demand", "same_outcome", "told"]

Need: TypeAlias = Callable[[Profile], str | None]
"""Returns why a profile gives a check nothing to do, None where it applies."""


@dataclass(frozen=True, slots=True)
class Check:
    """`run` raises `Breach`, or `Inconclusive`; on return all of `proves` was seen to hold."""

    name: str
    run: Callable[[Case], Awaitable[None]]
    proves: tuple[Guarantee, ...]
    need: Need = lambda _profile: None


def demand(result: Result, guarantee: Guarantee, *allowed: ResultStatus) -> None:
    """Raise `Breach` unless an answer has one of these statuses."""
    if result.status not in allowed:
        wanted = " or ".join(allowed)
        raise Breach(
            guarantee,
            f"{result.phase} attempt {result.attempt} answered {told(result)}, not {wanted}",
        )


def same_outcome(first: Result, again: Result, guarantee: Guarantee) -> None:
    """Raise `Breach` unless two answers tell the same outcome and output."""
    if (first.status, first.output) != (again.status, again.output):
        raise Breach(
            guarantee,
            f"{again.phase} attempt {again.attempt} answered {told(again)}; "
            f"attempt {first.attempt} had answered {told(first)}",
        )


def told(result: Result) -> str:
    """Return what an answer says, for people."""
    reason = f" ({result.reason_code})" if result.reason_code else ""
    output = f" with {result.output.body.decode(errors='replace')}" if result.output else ""
    return f"{result.status}{reason}{output}"
