"""The sagabus command. Packages that add commands use `Output` and the errors of this face."""

from sagabus_cli.address import ApiAddress
from sagabus_cli.api import Api
from sagabus_cli.connection import Connection, current_connection
from sagabus_cli.deeds import (
    MAX_DEEDS,
    DryRun,
    Limit,
    OperationId,
    Why,
    actor,
    chosen_operation_id,
    read_conditions,
    read_outboxes,
)
from sagabus_cli.errors import (
    CliError,
    FailedOutcome,
    NotPermitted,
    NotReachable,
    Refused,
    UsageError,
)
from sagabus_cli.options import options_of
from sagabus_cli.output import Output, current_output
from sagabus_cli.progress import Progress

__all__ = [
    "MAX_DEEDS",
    "Api",
    "ApiAddress",
    "CliError",
    "Connection",
    "DryRun",
    "FailedOutcome",
    "Limit",
    "NotPermitted",
    "NotReachable",
    "OperationId",
    "Output",
    "Progress",
    "Refused",
    "UsageError",
    "Why",
    "actor",
    "chosen_operation_id",
    "current_connection",
    "current_output",
    "options_of",
    "read_conditions",
    "read_outboxes",
]
