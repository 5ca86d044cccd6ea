"""What came out of the demo: counts, latencies, disagreements; as JSON and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sagabus_cli.running import percentile
from sagabus_core.vocabulary import SagaStatus
from sagabus_testkit.orders import SCENARIOS, STUCK, Finished, Scenario

__all__ = ["Result"]


@dataclass(frozen=True, slots=True)
class Result:
    """All orders with their endings, and what the books disagree on."""

    finished: Sequence[Finished]
    disagreements: Sequence[str]
    killed: Sequence[str]
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether every order ended as its scenario demands and all books agree."""
        return not self.disagreements and all(f.is_as_expected for f in self.finished)

    @property
    def counts(self) -> Counter[str]:
        """How many orders ended how."""
        return Counter(f.status for f in self.finished)

    def document(self) -> dict[str, object]:
        """Return what demo.json holds."""
        counts = self.counts
        return {
            "started": len(self.finished),
            "completed": counts[SagaStatus.COMPLETED],
            "compensated": counts[SagaStatus.COMPENSATED],
            "manual": counts[SagaStatus.MANUAL_INTERVENTION],
            "stuck": counts[STUCK],
            "as_expected": sum(f.is_as_expected for f in self.finished),
            "disagreements": list(self.disagreements),
            "killed": list(self.killed),
            "seconds": round(self.seconds, 1),
            "by_scenario": {
                scenario.name: {
                    "expected": scenario.expected.value,
                    "actual": " ".join(sorted({f.status for f in orders})),
                    "count": len(orders),
                    "p50_ms": percentile([f.latency_ms for f in orders], 50),
                    "max_ms": max(f.latency_ms for f in orders),
                }
                for scenario, orders in self._by_scenario()
            },
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table: one row per scenario."""
        return [
            (
                scenario.name,
                scenario.story,
                " ".join(sorted({f.status for f in orders})),
                f"{sum(f.is_as_expected for f in orders)}/{len(orders)}",
                f"{percentile([f.latency_ms for f in orders], 50) / 1000:.1f} s",
                f"{max(f.latency_ms for f in orders) / 1000:.1f} s",
            )
            for scenario, orders in self._by_scenario()
        ]

    def examples(self) -> list[Finished]:
        """Return one order of each scenario: an unexpected one if there is any."""
        return [min(orders, key=lambda f: f.is_as_expected) for _, orders in self._by_scenario()]

    def _by_scenario(self) -> Iterator[tuple[Scenario, list[Finished]]]:
        for scenario in SCENARIOS:
            orders = [f for f in self.finished if f.order.scenario is scenario]
            if orders:
                yield scenario, orders
