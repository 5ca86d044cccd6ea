"""Errors of the client.

ClientError                  root of this package
├── StartNotSent             Kafka took no start record in time: it may or may not be in the log
├── StartUnsendable          the start record itself can never be sent (too large, no topic ...)
├── ApiRefused               the HTTP API refused the request, with its stable code
├── ApiUnreachable           the HTTP API did not answer, or could not: it may have worked
└── OutcomePending           no outcome in time; the saga goes on
"""

from __future__ import annotations

from typing import ClassVar

from sagabus_core.errors import SagabusError

__all__ = [
    "ApiRefused",
    "ApiUnreachable",
    "ClientError",
    "OutcomePending",
    "StartNotSent",
    "StartUnsendable",
]


class ClientError(SagabusError):
    """Root of the errors of the client."""


class StartNotSent(ClientError):
    """Kafka did not acknowledge in time: send the same start again, under the same start id."""

    retryable: ClassVar[bool] = True


class StartUnsendable(ClientError):
    """The start can never be sent as it is."""


class ApiRefused(ClientError):
    """The API refused the request; `code` is the stable one of contracts/errors.md."""


class ApiUnreachable(ClientError):
    """No answer, that of an outage, or no room: send the same again, under the same start id."""

    retryable: ClassVar[bool] = True


class OutcomePending(ClientError):
    """The deadline of the caller passed before the saga ended; wait again."""

    retryable: ClassVar[bool] = True
