"""Which of several wake-up requests count: values in, values out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Arming", "newest_per_saga"]


@dataclass(frozen=True, slots=True)
class Arming:
    """Arm (or, with `due_at_ms` None, disarm) a saga's wake-up under a generation."""

    saga_id: str
    generation: int
    due_at_ms: int | None
    requested_at_ms: int
    traceparent: str | None = None


def newest_per_saga(requests: Iterable[Arming]) -> list[Arming]:
    """Return the highest generation of each saga, in saga order.

    The order is the one in which rows are locked: replicas that share sagas cannot deadlock.
    """
    newest: dict[str, Arming] = {}
    for request in requests:
        known = newest.get(request.saga_id)
        if known is None or known.generation < request.generation:
            newest[request.saga_id] = request
    return [newest[saga] for saga in sorted(newest)]
