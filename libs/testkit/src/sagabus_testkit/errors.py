"""Errors of the test kit: everything below `TestkitError`."""

from __future__ import annotations

from sagabus_core.errors import SagabusError

__all__ = ["TestkitError"]


class TestkitError(SagabusError):
    """Root of the errors of the test kit."""

    __test__ = False  # pytest would take the name for a test class
