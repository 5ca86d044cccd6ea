"""What work costs: CPU time by process, statements and WAL of Postgres, records in Kafka.

CPU time is read from /proc. It survives a busy machine; the wall clock does not.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import asyncpg
from tests.bench.clerk import NAME

from sagabus_bus import TopicAdmin
from sagabus_testkit.stack import LocalStack
from sagabus_testkit.system import System

__all__ = ["Gauges", "Reading", "cpu_of_server", "cpu_s"]

K = TypeVar("K")
Counts: TypeAlias = Mapping[K, float]

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_OFFSETS: Final = "__consumer_offsets"
_TOTALS: Final = """
select coalesce(sum(xact_commit + xact_rollback), 0)::bigint as transactions,
       (select coalesce(sum(s.calls), 0)::bigint from pg_stat_statements s
        join pg_database d on d.oid = s.dbid where d.datname like $1) as statements,
       pg_current_wal_lsn() - '0/0' as wal_bytes
from pg_stat_database where datname like $1
"""
_STATEMENTS: Final = """
select s.query, d.datname, s.calls, s.total_exec_time, s.rows
from pg_stat_statements s join pg_database d on d.oid = s.dbid
where d.datname like $1
"""


def cpu_s(pid: int, *, reaped: bool = False) -> float:
    """Return the CPU seconds of a process, with those of its ended children where `reaped`."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11 : 15 if reaped else 13]) / _TICKS


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found


async def cpu_of_server(conn: asyncpg.Connection) -> Counts[str]:
    """Return the CPU seconds of every process of the server that `conn` leads to, by name."""
    rows = await conn.fetch(
        "select pid, coalesce(nullif(application_name, ''), backend_type) as name"
        " from pg_stat_activity"
    )
    names = {row["pid"]: row["name"] for row in rows}
    postmaster = _parent(conn.get_server_pid())
    found: defaultdict[str, float] = defaultdict(float)
    for pid in _children(postmaster):
        found[names.get(pid, "others")] += cpu_s(pid)
    found["postmaster and what it reaped"] = cpu_s(postmaster, reaped=True)
    return found


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters at one moment; `-` gives what happened between two."""

    cpu: Counts[str]
    server_cpu: Counts[str]
    totals: Counts[str]
    records: Counts[str]
    statements: Counts[tuple[str, str]] = field(default_factory=dict)
    time_ms: Counts[tuple[str, str]] = field(default_factory=dict)

    def __sub__(self, before: Reading) -> Reading:
        return Reading(
            _less(self.cpu, before.cpu),
            _less(self.server_cpu, before.server_cpu),
            _less(self.totals, before.totals),
            _less(self.records, before.records),
            _less(self.statements, before.statements),
            _less(self.time_ms, before.time_ms),
        )

    def per(self, sagas: int) -> dict[str, object]:
        """Return what one saga cost."""
        return {
            "cpu_ms": {**_each(self.cpu, sagas, 1000), "all": _sum(self.cpu, sagas, 1000)},
            "postgres_cpu_ms": _each(self.server_cpu, sagas, 1000),
            **_each(self.totals, sagas, 1),
            "records": _sum(self.records, sagas, 1, without=_OFFSETS),
            "records_by_topic": _each(self.records, sagas, 1),
        }

    def costliest(self, count: int = 25) -> list[dict[str, object]]:
        """Return the statements on which Postgres spent most time."""
        return [
            {"ms": round(ms), "calls": self.statements[key], "database": key[0], "query": key[1]}
            for key, ms in sorted(self.time_ms.items(), key=lambda item: -item[1])[:count]
        ]


def _less(now: Counts[K], before: Counts[K]) -> Counts[K]:
    changed = {key: now[key] - before.get(key, 0.0) for key in now}
    return {key: change for key, change in changed.items() if change}


def _each(values: Mapping[str, float], sagas: int, scale: int) -> dict[str, float]:
    return {name: round(value * scale / sagas, 3) for name, value in sorted(values.items())}


def _sum(values: Mapping[str, float], sagas: int, scale: int, without: str = "") -> float:
    wanted = (value for name, value in values.items() if name != without)
    return round(sum(wanted) * scale / sagas, 3)


class Gauges:
    """Reads the counters of one running system; its own reading costs are named `bench`."""

    def __init__(self, stack: LocalStack, system: System) -> None:
        self._stack = stack
        self._system = system

    async def prepare(self) -> None:
        """Let Postgres count statements."""
        conn = await asyncpg.connect(self._stack.postgres.dsn)
        try:
            await conn.execute("create extension if not exists pg_stat_statements")
        finally:
            await conn.close()

    async def read(self) -> Reading:
        """Return all counters now."""
        records = await self._records()
        conn = await asyncpg.connect(self._stack.postgres.dsn)
        try:
            like = f"{self._system.name}%"
            totals = await conn.fetchrow(_TOTALS, like)
            statements: defaultdict[tuple[str, str], float] = defaultdict(float)
            time_ms: defaultdict[tuple[str, str], float] = defaultdict(float)
            for row in await conn.fetch(_STATEMENTS, like):
                key = (row["datname"], " ".join(row["query"].split())[:90])
                statements[key] += row["calls"]
                time_ms[key] += row["total_exec_time"]
            server = await cpu_of_server(conn)
        finally:
            await conn.close()
        assert totals is not None
        counted = {name: float(value) for name, value in totals.items()}
        return Reading(self._cpu(server), server, counted, records, statements, time_ms)

    def _cpu(self, server: Counts[str]) -> Counts[str]:
        found: defaultdict[str, float] = defaultdict(float)
        for name in self._system.names:
            pid = self._system.pid(name)
            found[name] += cpu_s(pid) if pid else 0.0
        kafka = self._stack.kafka.pid
        found["kafka"] = cpu_s(kafka) if kafka else 0.0
        found["postgres"] = sum(server.values())
        return found

    async def _records(self) -> Counts[str]:
        system = self._system
        topics = [spec.name for spec in system.topics.catalogue([NAME], 1)]
        found: defaultdict[str, float] = defaultdict(float)
        async with TopicAdmin(system.connection) as admin:
            for (topic, _), end in (await admin.end_offsets([*topics, _OFFSETS])).items():
                found[topic.removeprefix(system.topics.prefix)] += end
        return found
