"""Prometheus metrics: one registry per service, made by `build`, never the global one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector

__all__ = ["LATENCY_BUCKETS", "OTHER", "BoundedLabel", "LatencyHistogram", "new_registry"]

LATENCY_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
)  # fmt: skip
"""Seconds; fine where a healthy system is, coarse where people look at single cases anyway."""

OTHER: Final = "_other"
"""The label value of everything beyond a bound; no name of a workflow or step looks like it."""


def new_registry() -> CollectorRegistry:
    """Return a registry that holds the metrics of the process itself.

    Pass it as `registry=` to every metric: two services in one test process do not collide.
    """
    # Else each counter has a second series, which no expression of ours reads.
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library forgot its type
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class BoundedLabel:
    """Names that people choose, as the values of a label: the first `limit`, the rest `_other`.

    Workflows are published by tenants: without a bound, one of them could fill the memory of every
    Prometheus that scrapes us.
    """

    def __init__(self, limit: int = 200) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        """Return `name`, or `_other` where there are too many; the answer for a name is lasting."""
        if name in self._known:
            return name
        if len(self._known) < self._limit:
            self._known.add(name)
            return name
        return OTHER


class LatencyHistogram(Collector):
    """A histogram of seconds for hot paths: 0.25 us an observation, a fifth of the library's.

    It takes no lock: observe and scrape in one event loop. Durations below zero, which clocks of
    two machines make of very short ones, count as zero.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Sequence[str],
        *,
        registry: CollectorRegistry | None = None,
        buckets: Sequence[float] = LATENCY_BUCKETS,
    ) -> None:
        self.name = name
        self.labelnames = tuple(labelnames)
        self._documentation = documentation
        self._bounds = tuple(buckets)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        if registry is not None:
            registry.register(self)

    def observe(self, labels: tuple[str, ...], seconds: float) -> None:
        """Count one duration under label values in the order of the label names."""
        seconds = max(seconds, 0.0)
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[labels] += seconds

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """Return the family without samples."""
        return [self._family()]

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Return the family with all that was observed."""
        family = self._family()
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for labels, counts in self._counts.items():
            cumulative = zip(names, map(float, accumulate(counts)), strict=True)
            family.add_metric(labels, list(cumulative), self._sums[labels])
        return [family]

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self.name, self._documentation, labels=self.labelnames)
