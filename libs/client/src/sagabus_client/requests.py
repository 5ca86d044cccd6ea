"""What the client asks the API, and where that stands in a trace."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from sagabus_runtime.http_call import HttpCall, http_call

__all__ = ["Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked; `parent`: where its spans hang, None for below what runs."""

    method: str
    path: str
    template: str
    parent: str | None = None

    def call(self, base: str, resent: int) -> AbstractContextManager[HttpCall]:
        """Surround one attempt; `resent`: how many there were before."""
        return http_call(self.method, base, self.template, parent=self.parent, resent=resent)
