"""The verdict of a run: one document, one table, good or bad."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .findings import Findings

__all__ = ["ChaosVerdict"]

SHOWN = 100
"""How many problems the document spells out."""


@dataclass(frozen=True, slots=True)
class ChaosVerdict:
    """What a run came to.

    `failed`: faults that could not be done. `exits`: how often a process ended although nobody
    killed it. `whole_after_s`: from the end of the faults until every service said it was ready.
    """

    seed: int
    seconds: float
    found: Findings
    faults: Mapping[str, int]
    failed: Sequence[str] = ()
    exits: Mapping[str, int] = field(default_factory=dict)
    whole_after_s: float = 0.0

    @property
    def problems(self) -> list[str]:
        """Everything that must not be, as sentences; none means that the run is good."""
        return list(self._problems())

    def _problems(self) -> Iterator[str]:
        found = self.found
        if not self.faults:
            yield "no fault happened"
        yield from self.failed
        for name, times in self.exits.items():
            yield f"{name} ended {times} times although nobody killed it"
        for kind in (found.orders.problems, found.missing, found.strays, found.violations):
            yield from kind
        yield from (f"not at rest: {each}" for each in found.left)
        if found.dead_letters:
            yield f"{found.dead_letters} dead letters"

    def document(self) -> dict[str, object]:
        """Return what build/chaos.json holds."""
        found, orders, problems = self.found, self.found.orders, self.problems
        return {
            "seed": self.seed,
            "started": orders.started,
            "completed": orders.completed,
            "compensated": orders.compensated,
            "manual": orders.manual,
            "stuck": len(orders.stuck),
            "lost": len(orders.lost) + len(found.missing),
            "duplicate_effects": len(orders.duplicate_effects),
            "invariant_violations": len(found.violations),
            "faults": dict(sorted(self.faults.items())),
            "longest_stall_s": round(found.longest_stall_s, 1),
            "longest_wait_s": round(found.longest_wait_s, 1),
            "whole_after_s": round(self.whole_after_s, 1),
            "disagreements": len(orders.disagreements) + len(found.strays),
            "unexpected": len(orders.unexpected),
            "dead_letters": found.dead_letters,
            "seconds": self.seconds,
            "started_per_s": round(found.started_per_s, 1),
            "ended_per_s": round(found.ended_per_s, 1),
            "p50_ms": found.p50_ms,
            "good": not problems,
            "problems": problems[:SHOWN],
            "decisions_by_second": list(found.decisions_by_second),
            "why": list(found.why),
        }

    def table(self) -> list[str]:
        """Return the document as lines for people."""
        document = self.document()
        figures = {k: v for k, v in document.items() if isinstance(v, int | float)}
        lines = [f"  {name:<22}{value!s:>10}" for name, value in figures.items() if name != "good"]
        lines += [f"  fault {kind:<24}{times:>2}" for kind, times in sorted(self.faults.items())]
        lines += [f"  ! {problem}" for problem in self.problems[:20]]
        lines += [f"  ? {line}" for said in self.found.why for line in said.splitlines()]
        return [*lines, "good" if document["good"] else "BAD"]
