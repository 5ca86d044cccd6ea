"""How a saga stands, and what a test may expect of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sagabus_core.canonical import JsonValue
from sagabus_core.engine import ForwardState, MemberState, Snapshot
from sagabus_core.vocabulary import SagaStatus

__all__ = ["Saga"]


@dataclass(frozen=True, slots=True, repr=False)
class Saga:
    """One saga as it stands now.

    `calls` are the handlers that were called, as `<activation>.<handler>`; `output` is what a
    completed saga reports; `timeline` is its story as text.
    """

    snapshot: Snapshot
    calls: tuple[str, ...] = ()
    output: JsonValue = None
    timeline: str = ""

    @property
    def key(self) -> str:
        """The business key."""
        return self.snapshot.business_key

    @property
    def status(self) -> SagaStatus:
        """Where it stands; compares with the plain word, such as "COMPLETED"."""
        return self.snapshot.status

    @property
    def variables(self) -> Mapping[str, JsonValue]:
        """The variables of the workflow."""
        return self.snapshot.variables

    @property
    def done(self) -> tuple[str, ...]:
        """Activations that succeeded, in the order of their successes, undone ones as well."""
        numbered = [
            (each.success_sequence, path)
            for path, each in self.snapshot.activations.items()
            if each.state is ForwardState.SUCCEEDED and each.success_sequence is not None
        ]
        return tuple(path for _, path in sorted(numbered))

    @property
    def undone(self) -> tuple[str, ...]:
        """Activations that were compensated, in the order in which that happened."""
        plan = self.snapshot.plan
        return tuple(
            path
            for path in (plan.members if plan else ())
            if (member := self.snapshot.members.get(path)) is not None
            and member.state is MemberState.COMPENSATED
        )

    @property
    def states(self) -> Mapping[str, str]:
        """Where each issued activation stands going forward."""
        return {path: each.state.value for path, each in self.snapshot.activations.items()}

    @property
    def reason(self) -> str | None:
        """Why it waits for a person, else why it turned back."""
        for reason in self.snapshot.reasons.values():
            return reason.value
        return self.snapshot.abort.reason if self.snapshot.abort else None

    def expect(
        self,
        status: str,
        *,
        done: Sequence[str] | None = None,
        undone: Sequence[str] | None = None,
        calls: Sequence[str] | None = None,
        reason: str | None = None,
        **more: Any,  # noqa: ANN401  (any property, compared)
    ) -> None:
        """Raise `AssertionError` with every difference and the timeline.

        What is not named is not compared. `more`: `variables`, `output`, `states`; a mapping is
        compared by the members that are named.
        """
        __tracebackhide__ = True
        named: dict[str, Any] = {"status": status, **more}
        if reason is not None:
            named["reason"] = reason
        for name, wanted in (("done", done), ("undone", undone), ("calls", calls)):
            if wanted is not None:
                named[name] = tuple(wanted)
        wrong = [
            f"  {name}: expected {_shown(wanted)}, is {_shown(getattr(self, name))}"
            for name, wanted in named.items()
            if not _fits(wanted, getattr(self, name))
        ]
        if wrong:
            heading = f"the saga of {self.key!r} is not as expected:"
            raise AssertionError("\n".join([heading, *wrong, f"its timeline:\n{self.timeline}"]))

    def __repr__(self) -> str:
        return f"<Saga {self.key!r} {self.status.value}>"


def _fits(wanted: object, found: object) -> bool:
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(name in found and _fits(value, found[name]) for name, value in wanted.items())
    return wanted == found


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(each) for each in value) or "nothing"
    return str(value) if isinstance(value, str) else repr(value)
