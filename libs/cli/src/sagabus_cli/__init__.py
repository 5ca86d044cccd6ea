"""The sagabus command. Packages that add commands use `Output` and the errors of this face."""

from sagabus_cli.connection import Connection, current_connection
from sagabus_cli.errors import CliError, FailedOutcome, NotReachable, Refused, UsageError
from sagabus_cli.output import Output, current_output

__all__ = [
    "CliError",
    "Connection",
    "FailedOutcome",
    "NotReachable",
    "Output",
    "Refused",
    "UsageError",
    "current_connection",
    "current_output",
]
