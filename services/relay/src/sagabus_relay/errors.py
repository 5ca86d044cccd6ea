"""Errors of the relay.

RelayError                   root of this package
├── UnknownOutbox            a command names an outbox that the configuration does not list
├── NothingParked            a redrive names a (topic, key) of which no record is parked
└── OperationReused          an operation id did something else before
"""

from __future__ import annotations

from typing import ClassVar

from sagabus_core.errors import SagabusError

__all__ = ["LeaseLost", "NothingParked", "OperationReused", "RelayError", "UnknownOutbox"]


class RelayError(SagabusError):
    """Root of the relay's own errors."""


class LeaseLost(RelayError):
    """The lease ran out or was given back; the rows are another replica's business now."""

    retryable: ClassVar[bool] = True


class UnknownOutbox(RelayError):
    """No outbox of this name is configured; the same call fails until the settings change."""


class NothingParked(RelayError):
    """Nothing is parked under this topic and key, or somebody redrove it a moment ago."""


class OperationReused(RelayError):
    """The id belongs to another operation; nothing was done."""
