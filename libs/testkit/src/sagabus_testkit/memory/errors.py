"""Errors of the in-memory kit: how it is used wrongly, found before or while a saga runs."""

from __future__ import annotations

from sagabus_testkit.errors import TestkitError

__all__ = ["KitError"]


class KitError(TestkitError):
    """The kit, its definition and its handlers do not fit together; no verdict about a saga."""
