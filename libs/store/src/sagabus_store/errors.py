"""Errors of the store, and the one place that translates the driver's.

    SagabusError
    └── StoreError                 root of this package
        ├── StoreUnavailable       an outage or a conflict says nothing about a message (retryable)
        │   ├── StoreMisconfigured Postgres answers and turns us away: password, TLS, database
        │   ├── CommitUnknown      the connection was lost while committing
        │   └── PartitionMissing   maintenance has not made the inbox partition of that day
        ├── StoreRejected          the statement can never work with this data: a message caused it
        ├── MigrationError         migrations were edited, lost, or not applied
        └── QueryFileError         a .sql file breaks the rules of named queries

Classes of SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

import asyncpg

from sagabus_core.errors import SagabusError
from sagabus_runtime.errors import InjectedFault

__all__ = [
    "CommitUnknown",
    "MigrationError",
    "PartitionMissing",
    "QueryFileError",
    "StoreError",
    "StoreMisconfigured",
    "StoreRejected",
    "StoreUnavailable",
    "translate",
    "translate_commit",
    "translated",
]

OUTAGE_CLASSES: Final = frozenset(
    {"08", "25", "28", "3D", "3F", "40", "42", "53", "55", "57", "58", "F0", "XX"}
)
"""Classes that say nothing about a message: connections, conflicts, resources, operators, a
deployment that is ahead of its schema (42), credentials and missing databases (28, 3D, 3F), broken
files (F0, XX). Every other class (22 and 23 above all, also 54: an index entry too large) comes
from the data: retrying would hold a partition for ever."""

_TURNED_AWAY: Final = frozenset({"28", "3D"})
"""Classes of outages that people mend: who we say we are, and a database that does not exist."""

_NO_TLS: Final = "rejected SSL upgrade"
_CLOSED_TRANSPORT: Final = "the handler is closed"
_CHECK_VIOLATION: Final = "23514"
_INVALID_VALUE: Final = "22000"
_COMMIT_LOST: Final = frozenset({"40003", "57P01", "57P02", "57P03"})


class StoreError(SagabusError):
    """Root of the errors of this package."""


class StoreUnavailable(StoreError):
    """The database could not do it now; roll back, back off, and do the same again."""

    retryable: ClassVar[bool] = True


class StoreMisconfigured(StoreUnavailable):
    """Postgres answers, and this process is not set up to be let in: password, TLS, database.

    Retryable, since people mend it at the server as well: the service holds, not ready, and says
    what is wrong, instead of looking like one whose database is away.
    """


class CommitUnknown(StoreUnavailable):
    """The transaction may or may not have happened; on the next delivery the inbox knows."""


class PartitionMissing(StoreUnavailable):
    """The message is fine, the inbox has no partition for its day: run `inbox.maintain`."""


class StoreRejected(StoreError):
    """Postgres refuses this data (SQLSTATE class 22 or 23); the same data never succeeds."""

    def __init__(self, code: str, detail: str, sqlstate: str = "", constraint: str = "") -> None:
        super().__init__(code, detail)
        self.sqlstate = sqlstate
        self.constraint = constraint


class MigrationError(StoreError):
    """The schema and the migration files do not belong together."""


class QueryFileError(StoreError):
    """A .sql file is missing, or a query in it has no name, no purpose or a name twice."""


def translate(error: BaseException) -> StoreError | None:
    """Return the error of this package for an error of the driver, None for any other error."""
    if _is_misconfigured(error):
        return StoreMisconfigured(
            "store_misconfigured",
            f"{_describe(error)}: check sslmode, sslrootcert, sslcert, sslkey and the host name of "
            "the DSN",
        )
    match error:
        case asyncpg.PostgresError():
            return _from_sqlstate(error.sqlstate or "", str(error), _constraint_of(error))
        case InjectedFault() if len(error.kind) == 5:
            return _from_sqlstate(error.kind, error.detail, "injected")
        case asyncpg.InterfaceError() if isinstance(error, ValueError):
            # The driver cannot even encode the value: out of range, a lone surrogate.
            return StoreRejected("store_rejected", str(error), _INVALID_VALUE)
        case _:
            return _from_connection(error)


def translate_commit(error: BaseException) -> StoreError | None:
    """Return what an error during COMMIT means: a refusal, or an outcome that nobody knows."""
    sqlstate = _sqlstate_of(error)
    if sqlstate and sqlstate not in _COMMIT_LOST and not sqlstate.startswith("08"):
        return translate(error)
    found = translate(error)
    if found is None:
        return None
    return CommitUnknown("commit_unknown", f"the outcome of a commit is unknown ({found.detail})")


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of this package in place of the driver's, the cause kept."""
    try:
        yield
    except Exception as error:
        found = translate(error)
        if found is None:
            raise
        raise found from error


def _from_connection(error: BaseException) -> StoreUnavailable | None:
    if _is_about_a_connection(error):
        return StoreUnavailable("store_unavailable", f"connection: {error}")
    if isinstance(error, OSError | TimeoutError | EOFError):
        return StoreUnavailable("store_unavailable", _describe(error))
    return None


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" + (f" ({error.__cause__})" if error.__cause__ else "")


def _is_misconfigured(error: BaseException) -> bool:
    """Say whether the two sides cannot agree; a handshake that was cut off says nothing."""
    match error:
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ssl.SSLSyscallError():
            return False
        case ssl.SSLError() | asyncpg.ClientConfigurationError():
            return True
        case asyncpg.PostgresConnectionError():
            # In TLS 1.3 a refused certificate comes to light when the handshake is over for us.
            return isinstance(error.__cause__, ssl.SSLError) and _is_misconfigured(error.__cause__)
        case ConnectionError():
            return _NO_TLS in str(error)
        case _:
            return False


def _is_about_a_connection(error: BaseException) -> bool:
    if isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError):
        return True  # the driver reports a connection that closed under it this way too
    # What uvloop says of a write between the end of a transport and the news of it.
    return isinstance(error, RuntimeError) and _CLOSED_TRANSPORT in str(error)


def _from_sqlstate(sqlstate: str, message: str, constraint: str) -> StoreError:
    detail = f"SQLSTATE {sqlstate}: {message}"
    if sqlstate == _CHECK_VIOLATION and not constraint:
        # Postgres reports a row without a partition as a check violation of no constraint.
        return PartitionMissing("partition_missing", detail)
    if sqlstate[:2] in _TURNED_AWAY:
        return StoreMisconfigured("store_misconfigured", detail)
    if sqlstate[:2] in OUTAGE_CLASSES or not sqlstate:
        return StoreUnavailable("store_unavailable", detail)
    return StoreRejected("store_rejected", detail, sqlstate, constraint)


def _sqlstate_of(error: BaseException) -> str:
    if isinstance(error, asyncpg.PostgresError):
        return error.sqlstate or ""
    return error.kind if isinstance(error, InjectedFault) and len(error.kind) == 5 else ""


def _constraint_of(error: asyncpg.PostgresError) -> str:
    name: str | None = getattr(error, "constraint_name", None)
    return name or ""
