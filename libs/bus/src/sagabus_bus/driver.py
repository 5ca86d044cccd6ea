"""Makes the driver meet on uvloop the errors that it knows from asyncio's own loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

__all__ = ["prepare_driver"]

_WRITES: Final = ("send", "_send_sasl_token")


def prepare_driver() -> None:
    """Let a write to a connection that has just broken fail as the driver expects: an outage.

    Between the end of a transport and the news of it uvloop raises RuntimeError on a write, where
    asyncio's loop does nothing. The driver expects OSError alone: its task that keeps the metadata
    dies of anything else, and a client without it never learns of another leader again. Safe to
    call twice.
    """
    for name in _WRITES:
        write = getattr(AIOKafkaConnection, name)
        if not hasattr(write, "__wrapped__"):
            setattr(AIOKafkaConnection, name, _closing_what_broke(write))


def _closing_what_broke(write: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(write)
    def guarded(self: AIOKafkaConnection, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the driver's
        try:
            return write(self, *arguments, **named)
        except RuntimeError as error:
            self.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(
                f"Connection at {self.host}:{self.port} broken: {error}"
            ) from error

    return guarded
