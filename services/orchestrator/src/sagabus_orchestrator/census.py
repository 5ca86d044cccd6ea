"""Gauges that only the database knows: what needs a person, what waits, what is late.

Every replica counts and publishes the same: take the maximum over replicas. Each look is three
statements over indexes, bounded, so that a disaster does not cost a scan on top: see
`tests/bench/census_scale.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import asyncpg
from prometheus_client import CollectorRegistry, Gauge

from sagabus_orchestrator.holds import SQL as HOLDS
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_runtime import BoundedLabel, Pulse
from sagabus_store import Database, Queries

__all__ = ["Census", "CensusGauges"]

SQL = Queries("sagabus_orchestrator", "sql/census.sql")
BOUND: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Family:
    """A number of things and the age of the oldest."""

    count: Gauge
    age: Gauge

    def show(self, count: int, age_s: float, *labels: str) -> None:
        (self.count.labels(*labels) if labels else self.count).set(count)
        (self.age.labels(*labels) if labels else self.age).set(age_s)


class CensusGauges:
    """The gauges of one replica."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, meaning: str, *labels: str) -> Gauge:
            return Gauge(name, meaning, labels, registry=registry)

        self._workflow = BoundedLabel()
        self._workflows: set[str] = set()
        self._manual = _Family(
            gauge("sagabus_sagas_manual", "Sagas that need a person (up to a bound)", "workflow"),
            gauge(
                "sagabus_sagas_manual_oldest_seconds",
                "For how long nothing has changed the one of them that stands still longest",
                "workflow",
            ),
        )
        self._overdue = _Family(
            gauge("sagabus_sagas_overdue", "Sagas past their armed time (up to a bound)"),
            gauge("sagabus_sagas_overdue_seconds", "How late the longest overdue saga is"),
        )
        self._deferred = _Family(
            gauge("sagabus_deferred_messages", "Results of paused sagas (up to a bound)"),
            gauge("sagabus_deferred_oldest_seconds", "How long the oldest of them has waited"),
        )
        self._released = _Family(
            gauge("sagabus_sagas_released", "Sagas whose hold is released and that wait still"),
            gauge(
                "sagabus_sagas_released_oldest_seconds",
                "How long ago the hold was released for which one of them waits longest",
            ),
        )
        self._findings = gauge(
            "sagabus_reconciler_open_findings", "Sagas that stand still and were not repaired"
        )
        self._round_age = gauge(
            "sagabus_reconciler_round_age_seconds",
            "Time since the reconciler last came to the end of a round; 0 before the first",
        )

    def manual(self, rows: Mapping[str, tuple[int, float]]) -> None:
        """Show sagas that need a person, by workflow; those not named have none."""
        self._workflows |= {self._workflow(name) for name in rows}
        found = dict.fromkeys(self._workflows, (0, 0.0))
        for name, (count, age_s) in rows.items():
            label = self._workflow(name)
            before = found[label]
            found[label] = (before[0] + count, max(before[1], age_s))
        for label, (count, age_s) in found.items():
            self._manual.show(count, age_s, label)

    def released(self, row: asyncpg.Record) -> None:
        """Show what holds have paused and not yet let go although they are released."""
        self._released.show(row["sagas"], row["oldest_s"])

    def standing(self, row: asyncpg.Record, round_ended_ms: int | None) -> None:
        """Show what waits, and how long ago the last round of the reconciler ended."""
        self._overdue.show(row["overdue"], row["overdue_s"])
        self._deferred.show(row["deferred"], row["deferred_s"])
        self._findings.set(row["findings"])
        age_ms = 0 if round_ended_ms is None else max(0, row["now_ms"] - round_ended_ms)
        self._round_age.set(age_ms / 1000)


class Census:
    """The loop that looks; any number of replicas run it."""

    INTERVAL_MS: Final = 15_000

    def __init__(self, database: Database, gauges: CensusGauges, upkeep: UpkeepEvents) -> None:
        self._database = database
        self._gauges = gauges
        self._upkeep = upkeep

    async def run(self, pulse: Pulse) -> None:
        """Look until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            await self.look()
            pulse.beat()
            await pulse.pause(self.INTERVAL_MS)

    async def look(self) -> None:
        """Look once and publish."""
        async with self._database.connection() as conn:
            manual = await conn.fetch(SQL["manual_sagas"], BOUND)
            standing = await conn.fetchrow(SQL["standing"], BOUND)
            released = await conn.fetchrow(HOLDS["released_sagas"], BOUND)
        self._gauges.manual({row["workflow"]: (row["sagas"], row["oldest_s"]) for row in manual})
        if released is not None:
            self._gauges.released(released)
        if standing is not None:
            report = json.loads(standing["report"] or "{}")
            self._gauges.standing(standing, report.get("ended_ms"))
            # Another replica may have ended the round: its counts are those of all.
            self._upkeep.round_ended(report)
