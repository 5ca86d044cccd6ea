"""Errors of the bus, and the only place that knows the errors of the Kafka driver.

BusError                     root of this package
├── BusUnavailable           the broker is away, slow or short of replicas (retryable)
├── TopicUnavailable         a topic is missing or forbidden (retryable: people mend it)
├── TopicMismatch            a topic exists, but not as the catalogue describes it
├── RecordRefused            this record will never be accepted (too large, invalid)
├── ProducerFenced           another owner has taken over this transactional id
├── BusMisconfigured         credentials, protocol or rights are wrong (retryable: people mend it)
└── WorkInterrupted          asked to stop while waiting out an outage (retryable)
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from aiokafka import errors as kafka

from sagabus_core.errors import SagabusError

__all__ = [
    "BusError",
    "BusMisconfigured",
    "BusUnavailable",
    "ProducerFenced",
    "RecordRefused",
    "TopicMismatch",
    "TopicUnavailable",
    "WorkInterrupted",
    "translate",
    "translated",
]


class BusError(SagabusError):
    """Something went wrong between this process and Kafka."""


class BusUnavailable(BusError):
    """The broker did not answer as needed; the same call can succeed later."""

    retryable: ClassVar[bool] = True


class TopicUnavailable(BusError):
    """`topic_missing` or `topic_forbidden`: succeeds once somebody creates or opens the topic."""

    retryable: ClassVar[bool] = True


class TopicMismatch(BusError):
    """A topic has another shape than the catalogue says; nothing was changed."""


class RecordRefused(BusError):
    """The broker or its limits will never accept this record as it is."""


class ProducerFenced(BusError):
    """A newer producer holds the transactional id: this one must publish nothing any more."""


class BusMisconfigured(BusError):
    """The broker answers, and says that this client is not set up to do what it asks.

    Retryable like a forbidden topic: passwords and rights are mended at the broker, while the
    service holds what it has, not ready, and says why. An exit would tell less and help nobody.
    """

    retryable: ClassVar[bool] = True


class WorkInterrupted(BusError):
    """The records in hand are not settled; nothing was committed, they will come again."""

    retryable: ClassVar[bool] = True


_REFUSALS: Final[dict[type[BaseException], str]] = {
    kafka.MessageSizeTooLargeError: "record_too_large",
    kafka.RecordTooLargeError: "record_too_large",
    kafka.RecordListTooLargeError: "record_too_large",
    kafka.CorruptRecordException: "record_invalid",
    kafka.InvalidTimestampError: "record_invalid",
    kafka.InvalidRequestError: "record_invalid",
    kafka.PolicyViolationError: "record_against_policy",
    kafka.UnknownError: "record_invalid",
    kafka.UnsupportedForMessageFormatError: "record_invalid",
}
# Error 87 (INVALID_RECORD) is newer than the driver's table, which reports it as UnknownError.

_TOPIC: Final[dict[type[BaseException], str]] = {
    kafka.UnknownTopicOrPartitionError: "topic_missing",
    kafka.InvalidTopicError: "topic_missing",
    kafka.TopicAuthorizationFailedError: "topic_forbidden",
}

_FENCED: Final = (
    kafka.ProducerFenced,
    kafka.InvalidProducerEpoch,
    kafka.InvalidProducerIdMapping,
    kafka.TransactionCoordinatorFenced,
)

_MISCONFIGURED: Final = (
    kafka.AuthenticationFailedError,
    kafka.AuthenticationMethodNotSupported,
    kafka.SaslAuthenticationFailed,
    kafka.GroupAuthorizationFailedError,
    kafka.ClusterAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
    kafka.UnsupportedSaslMechanismError,
    kafka.InvalidGroupIdError,
    kafka.InvalidSessionTimeoutError,
    kafka.InvalidTransactionTimeout,
    kafka.InconsistentGroupProtocolError,
    kafka.UnsupportedVersionError,
    kafka.IncompatibleBrokerVersion,
    kafka.UnrecognizedBrokerVersion,
    kafka.UnsupportedCodecError,
)


def translate(error: BaseException, doing: str) -> BusError:
    """Return our error for a driver error; `doing` says what was attempted, for people.

    Unknown driver errors become `BusUnavailable`: an error that says nothing about a record or
    a setting must lose nothing and is tried again with back-off.
    """
    if isinstance(error, BusError):
        return error
    detail = f"{doing}: {_describe(error)}"
    for kind, code in _REFUSALS.items():
        if type(error) is kind:
            return RecordRefused(code, detail)
    for kind, code in _TOPIC.items():
        if isinstance(error, kind):
            return TopicUnavailable(code, detail)
    if isinstance(error, _FENCED):
        return ProducerFenced("producer_fenced", detail)
    if isinstance(error, _MISCONFIGURED) or _is_tls_refusal(error):
        return BusMisconfigured("bus_misconfigured", detail)
    return BusUnavailable("bus_unavailable", detail)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Let only our errors out of a block that calls the driver.

    The driver asserts on the state of a client that failed in the background, lets out what the
    event loop says of a closed transport (RuntimeError) and the cancellation of its own requests
    when a connection breaks: to us all are outages. A real cancellation of the calling task
    passes. Put `asyncio.timeout` inside the block.
    """
    try:
        yield
    except (kafka.KafkaError, OSError, AssertionError, RuntimeError) as error:
        raise translate(error, doing) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise BusUnavailable("bus_unavailable", f"{doing}: the driver gave up") from error


def _is_tls_refusal(error: BaseException) -> bool:
    """Say whether the two sides cannot agree; a handshake that was cut off says nothing."""
    cut_off = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    return isinstance(error, ssl.SSLError) and not isinstance(error, cut_off)


def _describe(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
