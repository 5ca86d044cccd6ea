"""Engine signals of operations on their way to the metrics of a replica.

An operation is done by a command that ends, or by a process that nobody scrapes: what the engine
signals is left in the operation's transaction, and one replica takes it and counts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from sagabus_core.engine import Metric
from sagabus_core.engine.vocabulary import OperationKind
from sagabus_runtime.failpoints import reach
from sagabus_store import Connection, Queries

__all__ = ["OPERATION", "collect", "leave"]

SQL = Queries("sagabus_orchestrator", "sql/signals.sql")


OPERATION: Final = "operation"
"""The signal of an operation itself; its label is the kind."""


async def leave(conn: Connection, kind: OperationKind, metrics: Sequence[Metric]) -> None:
    """Leave an operation, and what the engine signalled, for a replica to count.

    In the caller's transaction: what is rolled back is not counted.
    """
    names = [OPERATION, *(metric.name.value for metric in metrics)]
    labels = [kind.value, *(metric.label for metric in metrics)]
    await conn.execute(SQL["leave_signals"], names, labels)
    await reach("orchestrator.after-signals")


async def collect(conn: Connection) -> Counter[tuple[str, str]]:
    """Take the signals that no replica has taken yet: how often each was raised, by label."""
    found = await conn.fetch(SQL["collect_signals"])
    return Counter((row["signal"], row["label"]) for row in found)
