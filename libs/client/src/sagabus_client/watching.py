"""Which lifecycle event answers which start: a plain table, no I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from sagabus_client.values import Outcome, SagaHandle
from sagabus_messages import Envelope, Lifecycle

__all__ = ["Watch", "WatchTable"]


@dataclass(slots=True)
class Watch:
    """One start that somebody waits for; `latest` is the last news, `news` is set by each."""

    handle: SagaHandle
    latest: Outcome | None = None
    adopted: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def settled(self) -> Outcome | None:
        """The outcome once nothing more happens by itself."""
        return self.latest if self.latest is not None and self.latest.is_settled else None


class WatchTable:
    """Starts by saga id; an event is about a start once an event has named its start id.

    Until then a saga of the same key may be somebody else's, and this start may be refused.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._watches: dict[str, list[Watch]] = {}

    def add(self, handle: SagaHandle) -> Watch:
        """Watch a start from now on; must happen before the start is sent."""
        watch = Watch(handle)
        self._watches.setdefault(handle.saga_id, []).append(watch)
        return watch

    def find(self, handle: SagaHandle) -> Watch | None:
        """Return the watch of a start, or None."""
        watches = self._watches.get(handle.saga_id, [])
        return next((w for w in watches if w.handle.start_id == handle.start_id), None)

    def forget(self, watch: Watch) -> None:
        """Watch a start no longer."""
        watches = self._watches.get(watch.handle.saga_id, [])
        if watch in watches:
            watches.remove(watch)
        if not watches:
            self._watches.pop(watch.handle.saga_id, None)

    def take(self, envelope: Envelope) -> list[Outcome]:
        """Note an event; returns the news that it brought, one per start concerned."""
        body = envelope.body
        if not isinstance(body, Lifecycle):
            return []
        watches = self._watches.get(body.saga_id, [])
        return list(self._told(watches, envelope, body))

    def _told(
        self, watches: Iterable[Watch], envelope: Envelope, body: Lifecycle
    ) -> Iterable[Outcome]:
        answered = envelope.meta.start_source
        for watch in watches:
            named = body.start_id == watch.handle.start_id
            ours = named and answered in {None, self._source}
            watch.adopted = watch.adopted or ours
            if answered is not None and not ours:
                continue  # the answer to somebody else's start of the same key
            if not watch.adopted or _is_older(body, watch.latest):
                continue
            watch.latest = Outcome(
                handle=watch.handle,
                status=body.status,
                occurred_at_ms=body.occurred_at_ms,
                reason_code=body.reason_code,
                output=body.output,
                revision=body.revision,
            )
            watch.news.set()
            yield watch.latest


def _is_older(body: Lifecycle, latest: Outcome | None) -> bool:
    # Partitions keep the order of one saga, but the relay may repeat after a crash.
    if latest is None or body.revision is None or latest.revision is None:
        return False
    return body.revision <= latest.revision
