"""What is scripted for one workflow: acts of its steps, faults, and the truth that came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sagabus_core.vocabulary import Phase
from sagabus_testkit.memory.script import At, Script
from sagabus_testkit.memory.stubs import Act, Acts, Books

__all__ = ["Part"]


@dataclass(slots=True)
class Part:
    """Scripts a workflow with the words of `SagaKit`: `stub` and `on`."""

    acts: dict[str, Acts] = field(default_factory=dict)
    script: Script = field(default_factory=Script)
    books: Books = field(default_factory=Books)
    calls: list[str] = field(default_factory=list)

    def stub(
        self,
        step: str,
        *execute: Act,
        compensate: Sequence[Act] = Acts().compensate,
        cancel: Sequence[Act] = Acts().cancel,
        resolve: Sequence[Act] = Acts().resolve,
    ) -> None:
        """Script what a step answers, call by call; the last answer repeats."""
        self.acts[step] = Acts(execute or Acts().execute, compensate, cancel, resolve)

    def on(
        self,
        step: str,
        phase: Phase | str = Phase.EXECUTE,
        attempt: int | None = 1,
        target: Phase | str | None = None,
    ) -> At:
        """Name a place where something goes wrong."""
        return self.script.on(step, phase, attempt, target)
