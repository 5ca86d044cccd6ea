"""The inbox: each consumer handles each message once, whatever the broker repeats.

The key is (consumer, source, ce_id, UTC day of ce_time). The day comes from the message, so that a
repeat at any time of any day meets the partition of the first (a unique key cannot span days).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from sagabus_core.errors import InvalidValue
from sagabus_runtime import SettingsError
from sagabus_store.database import Connection, Database, now_ms
from sagabus_store.queries import Queries

__all__ = [
    "Claim",
    "InboxWindow",
    "Maintained",
    "Verdict",
    "claim",
    "day_of",
    "maintain",
]

Verdict: TypeAlias = Literal["too_old", "too_new"]

DAY_MS: Final = 86_400_000
AHEAD_MS: Final = 600_000
"""How far ahead of the database clock a message's time may be."""
DAYS_AHEAD: Final = 3
"""Partitions made beyond today: maintenance may fail for that long before claims have to wait."""

_EPOCH: Final = date(1970, 1, 1)
_MAX_DAY: Final = (date.max - _EPOCH).days
_MIN_DAY: Final = (date.min - _EPOCH).days
_SQL = Queries("sagabus_store", "sql/inbox.sql")


@dataclass(frozen=True, slots=True)
class Claim:
    """What identifies a message to the inbox; a repeat carries the same three values."""

    source: str
    ce_id: str
    ce_time_at_ms: int


@dataclass(frozen=True, slots=True)
class Maintained:
    """What one round of maintenance did."""

    created: int
    dropped: tuple[date, ...]


@dataclass(frozen=True, slots=True)
class InboxWindow:
    """How long messages are remembered; an older one is refused, never run again."""

    days: int

    def __post_init__(self) -> None:
        """Refuse windows for which there would be no or far too many partitions."""
        if not 1 <= self.days <= 365:
            raise InvalidValue("invalid_inbox_window", "the inbox window must be 1 to 365 days")

    def verdict(self, ce_time_at_ms: int, now_at_ms: int) -> Verdict | None:
        """Return why a message cannot be claimed, or None if it can (by the database clock)."""
        if ce_time_at_ms < now_at_ms - self.days * DAY_MS:
            return "too_old"
        return "too_new" if ce_time_at_ms > now_at_ms + AHEAD_MS else None

    def span(self, now_at_ms: int) -> tuple[date, date]:
        """Return the first and the last day that must have a partition at `now_at_ms`.

        One day more than the window: a message that was young enough when it was checked must
        find its partition when it is claimed a moment later, on the next day.
        """
        today = day_of(now_at_ms)
        return today - timedelta(days=self.days + 1), today + timedelta(days=DAYS_AHEAD)

    def require_covers(self, retention_ms: int, redrive_age_ms: int) -> None:
        """Refuse to start if the broker could deliver what the inbox has forgotten.

        Raises `SettingsError` (`inbox_window_too_short`) unless the window exceeds the retention
        of the topics plus the greatest age of a redrive.
        """
        needed_ms = retention_ms + redrive_age_ms
        if self.days * DAY_MS <= needed_ms:
            raise SettingsError(
                "inbox_window_too_short",
                f"an inbox window of {self.days} days must exceed topic retention plus redrive age"
                f" ({needed_ms / DAY_MS:.1f} days): raise the window or lower the retention",
            )


def day_of(at_ms: int) -> date:
    """Return the UTC day of an instant; instants beyond the calendar fall on its last day."""
    return _nth_day(at_ms // DAY_MS)


# A batch has hundreds of messages of one or two days.
@lru_cache(maxsize=512)
def _nth_day(days_since_epoch: int) -> date:
    return _EPOCH + timedelta(days=min(max(days_since_epoch, _MIN_DAY), _MAX_DAY))


async def claim(conn: Connection, consumer: str, claims: Sequence[Claim]) -> list[bool]:
    """Claim messages for `consumer` within the caller's transaction, in one statement.

    The answer is in the order of `claims`: True for a message that is handled now for the first
    time, False for a repeat (also of an earlier one in the same call). A rival transaction that
    has claimed the same message is waited for: if it commits, this claim is a repeat, if it rolls
    back, this claim wins. Raises `PartitionMissing` if maintenance did not make a day's partition.
    """
    if not claims:
        return []
    # Sorted: two transactions that claim the same messages wait for each other in one order.
    keys = [(c.ce_id, c.source, day_of(c.ce_time_at_ms)) for c in claims]
    wanted = sorted(set(keys))
    rows = await conn.fetch(
        _SQL["claim_inbox"],
        consumer,
        [source for _, source, _ in wanted],
        [ce_id for ce_id, _, _ in wanted],
        [day for _, _, day in wanted],
    )
    fresh = {(row["ce_id"], row["source"], row["day"]) for row in rows}
    answers: list[bool] = []
    for key in keys:
        answers.append(key in fresh)
        fresh.discard(key)
    return answers


async def maintain(
    database: Database, window: InboxWindow, now_at_ms: int | None = None
) -> Maintained:
    """Make the partitions of the window and drop the older ones; run it hourly, by any replica.

    `now_at_ms`: the time of the database, read there where it is not given.
    Claims go on meanwhile; dropping takes one short lock per partition. Raises `StoreUnavailable`
    if that lock was not to be had: nothing is half done, run it again.
    """
    async with database.transaction() as conn:
        first, last = window.span(await now_ms(conn) if now_at_ms is None else now_at_ms)
        created = int(await conn.fetchval(_SQL["create_inbox_partitions"], first, last))
    dropped: list[date] = []
    while (day := await _drop_one_before(database, first)) is not None:
        dropped.append(day)
    return Maintained(created, tuple(dropped))


async def _drop_one_before(database: Database, limit: date) -> date | None:
    async with database.connection() as conn:
        day: date | None = await conn.fetchval(_SQL["drop_inbox_partition_before"], limit)
        return day
