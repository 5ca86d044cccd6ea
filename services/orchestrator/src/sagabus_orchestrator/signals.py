"""Engine signals of operations on their way to the metrics of a replica.

An operation is done by a command that ends, or by a process that nobody scrapes: what the engine
signals is left in the operation's transaction, and one replica takes it and counts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sagabus_core.engine import Metric
from sagabus_runtime.failpoints import reach
from sagabus_store import Connection, Queries

__all__ = ["collect", "leave"]

SQL = Queries("sagabus_orchestrator", "sql/signals.sql")


async def leave(conn: Connection, metrics: Sequence[Metric]) -> None:
    """Leave signals for a replica to count, in the caller's transaction."""
    if metrics:
        names, labels = [m.name.value for m in metrics], [m.label for m in metrics]
        await conn.execute(SQL["leave_signals"], names, labels)
        await reach("orchestrator.after-signals")


async def collect(conn: Connection) -> Counter[tuple[str, str]]:
    """Take the signals that no replica has taken yet: how often each was raised, by label."""
    found = await conn.fetch(SQL["collect_signals"])
    return Counter((row["signal"], row["label"]) for row in found)
