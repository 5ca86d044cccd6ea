"""Errors of the relay.

RelayError                   root of this package
├── UnknownOutbox            a command names an outbox that the configuration does not list
└── NothingParked            a redrive names a (topic, key) of which no record is parked
"""

from __future__ import annotations

from sagabus_core.errors import SagabusError

__all__ = ["NothingParked", "RelayError", "UnknownOutbox"]


class RelayError(SagabusError):
    """Root of the relay's own errors."""


class UnknownOutbox(RelayError):
    """No outbox of this name is configured; the same call fails until the settings change."""


class NothingParked(RelayError):
    """Nothing is parked under this topic and key, or somebody redrove it a moment ago."""
