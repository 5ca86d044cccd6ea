"""The durable memory of the processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sagabus_example_cards.moods import mood_of
from sagabus_store import Database, Queries

__all__ = ["Decision", "Ledger", "Refund"]

SQL: Final = Queries("sagabus_example_cards", "sql/ledger.sql")


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a key; `is_repeat` where that was not now."""

    body: dict[str, str | None]
    is_repeat: bool


@dataclass(frozen=True, slots=True)
class Refund:
    """A refund that was made, of a charge of this card."""

    card: str
    requests: int


class Ledger:
    """Decides once per idempotency key; everything is committed before it is answered."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def charge(self, key: str, reference: str, card: str, amount_cents: int) -> Decision:
        """Charge or decline, unless the key was decided about before."""
        wish = "declined" if mood_of(card).declines else "charged"
        async with self._db.transaction() as conn:
            (row,) = await conn.fetch(SQL["charge"], key, reference, card, amount_cents, wish)
        body = {"status": row["status"], "charge_id": row["charge_id"]}
        return Decision(body, row["requests"] > 1 or row["status"] == "forbidden")

    async def settle(self, key: str) -> dict[str, str | None]:
        """Return the decision about a key; one that was never seen is forbidden from now on."""
        async with self._db.transaction() as conn:
            (row,) = await conn.fetch(SQL["settle"], key)
        return {"status": row["status"], "charge_id": row["charge_id"]}

    async def refund(self, key: str, charge_key: str) -> Refund | None:
        """Give a charge back once per key; None where nothing was charged."""
        async with self._db.transaction() as conn:
            row = await conn.fetchrow(SQL["refund"], key, charge_key)
        return Refund(row["card"], row["requests"]) if row else None

    async def was_refunded(self, key: str) -> bool:
        """Return whether the refund of a key was made."""
        async with self._db.connection() as conn:
            return bool(await conn.fetchval(SQL["refunded"], key))

    async def everything(self) -> dict[str, list[dict[str, object]]]:
        """Return all charges and refunds, for reconciliation."""
        async with self._db.connection() as conn:
            charges = await conn.fetch(SQL["charges"])
            refunds = await conn.fetch(SQL["refunds"])
        return {
            "charges": [dict(row) for row in charges],
            "refunds": [dict(row) for row in refunds],
        }
