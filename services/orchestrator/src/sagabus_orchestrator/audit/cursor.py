"""Where a reader of a numbered stream stands, as a text that it hands back. Pure."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from sagabus_core.errors import InvalidValue
from sagabus_orchestrator.audit.fence import Fence

__all__ = ["BEGINNING", "Cursor"]

_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything up to `seq` was served; `fence` was raised then and is settled by the next time.

    The fence only spares the next page a wait. A forged cursor harms nobody but its bearer.
    """

    seq: int
    fence: Fence | None = None

    def __str__(self) -> str:
        fence = self.fence or Fence(0, 0, 0)
        text = f"{self.seq}.{fence.seq}.{fence.xid}.{fence.at_ms}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return what `str` wrote. Raises `InvalidValue` (`invalid_cursor`)."""
        try:
            padded = text + "=" * (-len(text) % 4)
            parts = base64.urlsafe_b64decode(padded).decode("ascii").split(".")
            seq, *fence = (int(part) for part in parts)
            raised = Fence(*fence)
        except (ValueError, TypeError, binascii.Error) as cause:
            raise InvalidValue("invalid_cursor", "take the cursor from the page before") from cause
        if not all(0 <= number <= _MAX for number in (seq, *fence)):
            raise InvalidValue("invalid_cursor", "take the cursor from the page before")
        return cls(seq, raised if raised.xid else None)


BEGINNING = Cursor(0)
