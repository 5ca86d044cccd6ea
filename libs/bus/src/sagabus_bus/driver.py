"""Makes the driver meet the errors that it would overlook: on uvloop, and of refused tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, CloseReason, OAuthAuthenticator
from aiokafka.errors import KafkaConnectionError

__all__ = ["prepare_driver"]

_STEP: Final = "step"
_WRITES: Final = ("send", "_send_sasl_token")


def prepare_driver() -> None:
    """Let a write to a connection that has just broken fail as the driver expects: an outage.

    Between the end of a transport and the news of it uvloop raises RuntimeError on a write, where
    asyncio's loop does nothing. The driver expects OSError alone: its task that keeps the metadata
    dies of anything else, and a client without it never learns of another leader again. Safe to
    call twice.
    """
    _hear_refused_tokens()
    for name in _WRITES:
        write = getattr(AIOKafkaConnection, name)
        if not hasattr(write, "__wrapped__"):
            setattr(AIOKafkaConnection, name, _closing_what_broke(write))


def _hear_refused_tokens() -> None:
    """Let the driver answer a broker that refuses an OAuth token, as RFC 7628 asks (3.2.3).

    The broker says so in a challenge without an error code; the code comes once the client has
    sent one more byte. The driver takes the challenge for success, and the refusal would look like
    a broker that hangs up.
    """
    step: Callable[..., Any] = OAuthAuthenticator.step
    if hasattr(step, "__wrapped__"):
        return

    @wraps(step)
    async def answering(self: OAuthAuthenticator, payload: bytes | None) -> Any:  # noqa: ANN401 - as the driver's
        return (b"\x01", True) if payload else await step(self, payload)

    setattr(OAuthAuthenticator, _STEP, answering)


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
