"""Errors of the timer.

TimerError                   root of this package
└── RequestOutOfWindow       a request is older than the window, or from the future: dead letter
"""

from __future__ import annotations

from sagabus_core.errors import SagabusError

__all__ = ["RequestOutOfWindow", "TimerError"]


class TimerError(SagabusError):
    """Root of the timer's own errors."""


class RequestOutOfWindow(TimerError):
    """`too_old` or `too_new`: its generation can no longer be told from one that has passed."""
