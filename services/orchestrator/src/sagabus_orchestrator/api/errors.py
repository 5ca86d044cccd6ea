"""Errors of the HTTP API.

OrchestratorError
├── BadRequest               the request itself is malformed
├── RivalRequest             the same request was answered elsewhere meanwhile (retryable)
├── EventsGone               the events that a stream shall go on with are kept no longer
├── RequestTimeout           headers or body took too long to arrive (retryable)
├── CallerBusy               one caller has as much under way as one may (retryable)
├── ApiBusy                  this replica has as many requests under way as it may (retryable)
└── ApiStopping              this replica stops (retryable)
"""

from __future__ import annotations

from typing import ClassVar

from sagabus_orchestrator.errors import OrchestratorError

__all__ = [
    "ApiBusy",
    "ApiStopping",
    "BadRequest",
    "CallerBusy",
    "EventsGone",
    "RequestTimeout",
    "RivalRequest",
]


class BadRequest(OrchestratorError):
    """The request breaks a documented rule; the same request will never be accepted."""


class EventsGone(OrchestratorError):
    """What came behind an event may be kept no longer: read anew, then follow from now on."""


class RivalRequest(OrchestratorError):
    """Somebody took the request key while its start was decided: looked up again, it is known."""

    retryable: ClassVar[bool] = True


class RequestTimeout(OrchestratorError):
    """The request did not arrive in time: send it again, over a faster line."""

    retryable: ClassVar[bool] = True


class CallerBusy(OrchestratorError):
    """The caller has as much under way as one caller may: wait for some of it to end."""

    retryable: ClassVar[bool] = True


class ApiBusy(OrchestratorError):
    """This replica has as many requests under way as it may: ask again, or another replica."""

    retryable: ClassVar[bool] = True


class ApiStopping(OrchestratorError):
    """This replica stops and began nothing: send the request again."""

    retryable: ClassVar[bool] = True
