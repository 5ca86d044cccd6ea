"""What upkeep tells operators: counters and gauges with bounded labels, one log line per saga."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from sagabus_orchestrator.upkeep.proof import Defect, Waiting
from sagabus_runtime import get_logger

__all__ = ["UpkeepEvents"]

log = get_logger()


class UpkeepEvents:
    """Metrics of the reconciler and of the archive; saga ids go to the log, never to a label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._findings = Counter(
            "sagabus_reconciler_findings",
            "Sagas that stood still with nothing to move them, by fault and what became of it",
            ("fault", "outcome"),
            registry=registry,
        )
        self._checked = Counter(
            "sagabus_reconciler_checked", "Sagas that the reconciler looked at", registry=registry
        )
        self._waiting = Gauge(
            "sagabus_reconciler_waiting",
            "Sagas that were not at their end in the last round, by what they wait for",
            ("waiting_for",),
            registry=registry,
        )
        self._archived = Counter(
            "sagabus_archive_sagas", "Sagas that were moved to the archive", registry=registry
        )

    def looked_at(self, sagas: int) -> None:
        """Count a page."""
        self._checked.inc(sagas)

    def found(self, defect: Defect, saga: Mapping[str, str], *, repaired: bool) -> None:
        """Count and log a saga that stood still: nobody else would ever have noticed.

        `saga`: the log fields that name it.
        """
        outcome = "repaired" if repaired else "open"
        self._findings.labels(defect.fault, outcome).inc()
        log.error(
            "reconciler.finding",
            **saga,
            fault=defect.fault,
            detail=defect.detail,
            repaired=repaired,
        )

    def round_ended(self, counts: Mapping[str, int]) -> None:
        """Publish what the sagas of a whole round wait for."""
        for waiting in Waiting:
            self._waiting.labels(waiting).set(counts.get(waiting, 0))

    def archived(self, sagas: int) -> None:
        """Count a batch that went to the archive."""
        self._archived.inc(sagas)
