"""Postgres toolkit of sagabus: migrations, named queries, unit of work, inbox, outbox."""

from sagabus_store import inbox, outbox, roles
from sagabus_store.bell import OutboxBell
from sagabus_store.database import (
    QUEUE_PLANNER,
    Connection,
    Database,
    DatabaseOptions,
    Isolation,
    now_ms,
)
from sagabus_store.errors import (
    CommitUnknown,
    MigrationError,
    PartitionMissing,
    QueryFileError,
    StoreError,
    StoreMisconfigured,
    StoreRejected,
    StoreUnavailable,
    translate,
    translated,
)
from sagabus_store.inbox import Claim, InboxWindow
from sagabus_store.migrations import SHARED, Component, describe_schema, migrate, require_current
from sagabus_store.queries import Queries

__all__ = [
    "QUEUE_PLANNER",
    "SHARED",
    "Claim",
    "CommitUnknown",
    "Component",
    "Connection",
    "Database",
    "DatabaseOptions",
    "InboxWindow",
    "Isolation",
    "MigrationError",
    "OutboxBell",
    "PartitionMissing",
    "Queries",
    "QueryFileError",
    "StoreError",
    "StoreMisconfigured",
    "StoreRejected",
    "StoreUnavailable",
    "describe_schema",
    "inbox",
    "migrate",
    "now_ms",
    "outbox",
    "require_current",
    "roles",
    "translate",
    "translated",
]
