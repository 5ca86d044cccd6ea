"""Bulk operations: one management operation on every saga that a filter names."""

from sagabus_orchestrator.bulk.bulks import Bulks
from sagabus_orchestrator.bulk.rights import Rights
from sagabus_orchestrator.bulk.values import Bulk, BulkFilter, BulkKind, BulkOrder, BulkState
from sagabus_orchestrator.bulk.worker import BulkWorker

__all__ = [
    "Bulk",
    "BulkFilter",
    "BulkKind",
    "BulkOrder",
    "BulkState",
    "BulkWorker",
    "Bulks",
    "Rights",
]
