"""Forgetting: the journal of activations for which no command can come any more.

What a repeat needs is never removed. A repeat of the same record is known to the inbox, and
refused as `too_old` behind its window; a further attempt of the same activation comes as long as
its saga is open. So the journal is kept for `journal_days` after the *last* command of an
activation, which must exceed the inbox window and has to exceed the longest life of a saga.
What is in doubt, halted or queued stays however old it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sagabus_runtime import SettingsError
from sagabus_store import Database, Queries

__all__ = ["Retention", "require_covers"]

SQL: Final = Queries("sagabus_participant", "sql/retention.sql")
PAGE: Final = 1_000
PAGES: Final = 20
"""Most pages of one round: other work of the database must not wait for housekeeping."""

_BEGINNING: Final = (datetime(1970, 1, 1, tzinfo=UTC), "00000000-0000-0000-0000-000000000000")


def require_covers(journal_days: int, inbox_days: int) -> None:
    """Refuse a journal that forgets while the inbox would still let a repeat through.

    Raises `SettingsError` (`journal_too_short`).
    """
    if journal_days <= inbox_days:
        raise SettingsError(
            "journal_too_short",
            f"SAGABUS_JOURNAL_DAYS={journal_days} must exceed SAGABUS_INBOX_DAYS={inbox_days}:"
            " a repeat would find no journal and run again",
        )


@dataclass(slots=True)
class Retention:
    """Removes what is older than `days`, a bounded part of it per round."""

    days: int
    _place: tuple[datetime, str] = _BEGINNING

    async def round(self, db: Database) -> int:
        """Walk a bounded way along the journal; return how many activations were forgotten.

        Each page is a transaction of its own and waits for no lock. Any replica may run it.
        """
        limit = datetime.fromtimestamp(await db.now_ms() / 1000, UTC) - timedelta(days=self.days)
        forgotten = 0
        for _ in range(PAGES):
            async with db.transaction() as conn:
                row = await conn.fetchrow(SQL["forget_activations"], limit, *self._place, PAGE)
                await conn.execute(SQL["forget_answers"], limit, PAGE)
            if row is None or row["seen"] < PAGE:
                self._place = _BEGINNING
                return forgotten + (row["forgotten"] if row else 0)
            forgotten += row["forgotten"]
            self._place = (row["created_at"], str(row["effect_id"]))
        return forgotten
