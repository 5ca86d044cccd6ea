"""The checks, by what they are about."""

from typing import Final

from sagabus_conformance.checks import doors, fences, forgeries, repeats, undo
from sagabus_conformance.checks.registry import Check

__all__ = ["ALL", "Check"]

ALL: Final[tuple[Check, ...]] = (
    *repeats.CHECKS,
    *fences.CHECKS,
    *undo.CHECKS,
    *doors.CHECKS,
    *forgeries.CHECKS,
)
"""All checks that need no kill; each talks about a saga of its own, so they run side by side."""
