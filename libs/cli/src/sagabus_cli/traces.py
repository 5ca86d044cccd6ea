"""A command line as the beginning of a trace, where the environment asks for traces.

OpenTelemetry is slow to import: nothing of it is loaded elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from sagabus_core.errors import SagabusError

if TYPE_CHECKING:
    from sagabus_runtime.http_call import HttpCall

__all__ = ["call", "traced"]


@contextmanager
def traced() -> Iterator[None]:
    """Run the block as one span, below which is all that the command asks for."""
    if not _is_wanted():
        yield
        return
    from sagabus_runtime.telemetry import Tracing, running  # noqa: PLC0415

    try:
        tracing = Tracing.start("sagabus-cli")
    except SagabusError as error:
        sys.stderr.write(f"not traced. {error.code}: {error.detail}\n")
        tracing = Tracing()
    tracing.become_host()
    try:
        with running(tracing.tracer.start_span("sagabus") if tracing.tracer else None):
            yield
    finally:
        tracing.close()


class _Untraced:
    """A request in no trace."""

    headers: Final[Mapping[str, str]] = {}

    def answered(self, status: int) -> None:
        """Tell nobody."""


def call(method: str, base_url: str) -> AbstractContextManager[HttpCall | _Untraced]:
    """Return the place of a request in the trace."""
    if not _is_wanted():
        return nullcontext(_Untraced())
    from sagabus_runtime.http_call import http_call  # noqa: PLC0415

    return http_call(method, base_url)


def _is_wanted() -> bool:
    return any(name.startswith("OTEL_") for name in os.environ)
