"""The card processor's HTTP interface, as far as this participant needs it."""

from __future__ import annotations

from typing import Any, Literal

import httpx
from pydantic import BaseModel

from sagabus_core.errors import SagabusError

__all__ = ["CardProcessor", "Charge", "LostAnswer"]


class LostAnswer(SagabusError):
    """The processor may or may not have done it: the connection broke or the answer makes no sense.

    Not retryable by itself: whoever asked has to find out.
    """


class Charge(BaseModel):
    """What the processor says about one idempotency key; `forbidden`: it will never charge it."""

    status: Literal["charged", "declined", "forbidden"]
    charge_id: str | None = None


class CardProcessor:
    """A client that tells a clear answer from a lost one."""

    def __init__(self, base_url: str, timeout_ms: int) -> None:
        self._http = httpx.AsyncClient(base_url=base_url, timeout=timeout_ms / 1000)

    async def charge(self, key: str, reference: str, card: str, amount_cents: int) -> Charge:
        """Charge once per key, however often it is called."""
        body = {"reference": reference, "card": card, "amount_cents": amount_cents}
        return Charge(**await self._call("PUT", f"/charges/{key}", body))

    async def settle(self, key: str) -> Charge:
        """Return the charge of this key, or forbid the key for ever where there is none."""
        return Charge(**await self._call("POST", f"/charges/{key}/settle", {}))

    async def refund(self, key: str, charge_key: str) -> None:
        """Give the money of a charge back, once per key."""
        await self._call("PUT", f"/refunds/{key}", {"charge_key": charge_key})

    async def was_refunded(self, key: str) -> bool:
        """Return whether the refund of this key was made."""
        return bool((await self._call("GET", f"/refunds/{key}", None))["refunded"])

    async def close(self) -> None:
        """Release the connections."""
        await self._http.aclose()

    async def _call(self, method: str, path: str, body: object) -> dict[str, Any]:
        try:
            answer = await self._http.request(method, path, json=body)
            answer.raise_for_status()
            content: dict[str, Any] = answer.json()
        except (httpx.HTTPError, ValueError) as cause:
            raise LostAnswer(
                "card_answer_lost", f"{method} {path}: {type(cause).__name__}"
            ) from cause
        return content
