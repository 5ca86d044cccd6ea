"""Where a reader of a numbered stream stands, as a text that it hands back. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sagabus_orchestrator import cursors
from sagabus_orchestrator.audit.fence import Fence

__all__ = ["BEGINNING", "Cursor"]

_MAX: Final = 2**63 - 1
_PARTS_OF_FENCE: Final = 3


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything up to `seq` was served; `fence` was raised then and is settled by the next time.

    The fence only spares the next page a wait. A forged cursor harms nobody but its bearer.
    """

    seq: int
    fence: Fence | None = None

    def __str__(self) -> str:
        fence = self.fence or Fence(0, 0, 0)
        return cursors.written(f"{self.seq}.{fence.seq}.{fence.xid}.{fence.at_ms}")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return what `str` wrote. Raises `InvalidValue` (`invalid_cursor`)."""
        seq, *fence = (cursors.integer(part, _MAX) for part in cursors.read(text).split("."))
        if len(fence) != _PARTS_OF_FENCE:
            raise cursors.malformed()
        raised = Fence(*fence)
        found = cls(seq, raised if raised.xid else None)
        if str(found) != text:
            raise cursors.malformed()
        return found


BEGINNING = Cursor(0)
