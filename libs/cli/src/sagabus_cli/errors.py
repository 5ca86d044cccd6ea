"""Errors of the command line, and the exit code of every kind of failure.

    CliError                     root; each class has its exit code
    ├── FailedOutcome      1     the command did its work and the outcome is bad
    ├── UsageError         2     the command line makes no sense
    ├── NotReachable       3     a server or a needed program is not there
    ├── Refused            4     understood, and not done: a rule or the state forbids it
    └── NotPermitted       6     the API does not know who asks, or that caller may not

Exit codes: 0 all well, 5 an error of sagabus itself, 130 interrupted by Ctrl-C, 141 whoever read
the output has gone.
"""

from __future__ import annotations

from typing import ClassVar

from sagabus_core.errors import InvalidValue, SagabusError

__all__ = [
    "INTERNAL_ERROR",
    "INTERRUPTED",
    "READER_GONE",
    "CliError",
    "FailedOutcome",
    "NotPermitted",
    "NotReachable",
    "Refused",
    "UsageError",
    "exit_code_of",
]

USAGE, NOT_REACHABLE, REFUSED, INTERNAL_ERROR, NOT_PERMITTED = 2, 3, 4, 5, 6
INTERRUPTED, READER_GONE = 130, 141
"""As a shell tells of a process that SIGINT or SIGPIPE has ended."""


class CliError(SagabusError):
    """Root of the errors of the command line; `exit_code` is what the shell gets."""

    exit_code: ClassVar[int] = 1


class FailedOutcome(CliError):
    """The command did its work and the outcome is bad."""


class UsageError(CliError):
    """The command line makes no sense."""

    exit_code = USAGE


class NotReachable(CliError):
    """A server or a needed program is not there."""

    exit_code = NOT_REACHABLE
    retryable = True


class Refused(CliError):
    """Understood, and not done: a rule or the present state forbids it."""

    exit_code = REFUSED


class NotPermitted(CliError):
    """The API does not know who asks, or that caller may not do this."""

    exit_code = NOT_PERMITTED


_REFUSED_BY_STACK = frozenset({"stack_busy", "not_controllable"})
_NOT_PERMITTED = frozenset(
    {
        "credentials_missing",
        "credentials_ambiguous",
        "key_expired",
        "key_invalid",
        "key_revoked",
        "permission_denied",
        "token_expired",
        "token_invalid",
    }
)
_USAGE_OF_STACK = frozenset({"invalid_stack_name", "invalid_address", "invalid_database_name"})


def exit_code_of(error: SagabusError) -> int:
    """Return the exit code for an error of any package of sagabus."""
    if isinstance(error, CliError):
        return error.exit_code
    if isinstance(error, InvalidValue) or error.code in _USAGE_OF_STACK:
        return USAGE
    if error.code in _NOT_PERMITTED:
        return NOT_PERMITTED
    if error.code in _REFUSED_BY_STACK:
        return REFUSED
    return NOT_REACHABLE if error.retryable or _is_about_the_stack(error) else REFUSED


def _is_about_the_stack(error: SagabusError) -> bool:
    from sagabus_testkit.stack.errors import StackError  # noqa: PLC0415 - only on the way out

    return isinstance(error, StackError)
