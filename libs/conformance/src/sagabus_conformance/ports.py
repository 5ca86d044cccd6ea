"""What the suite needs beyond the wire, where the user offers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["EffectCounter", "Killer"]


class EffectCounter(Protocol):
    """Knows how often effects were really applied."""

    async def count(self) -> Mapping[str, int]:
        """Return, by effect id, how often each was ever applied; an id that is absent: never."""


class Killer(Protocol):
    """Ends the participant without warning, and brings it back."""

    async def kill(self) -> None:
        """End the process at once (SIGKILL); on return it is dead."""

    async def restart(self) -> None:
        """Begin to start it again."""
