"""Lets an idle consumer ask the broker a few times a second instead of fifty."""

from __future__ import annotations

from typing import Any, Final

from aiokafka import AIOKafkaConsumer

__all__ = ["PATIENT_MS", "fetch_patiently"]

PATIENT_MS: Final = 250
"""How long the broker may hold a fetch that nothing waits for; it answers at once to a record.

What else uses the same connection waits as long: looking for an offset or for a new leader.
"""


def fetch_patiently(consumer: AIOKafkaConsumer, patient_ms: int = PATIENT_MS) -> None:
    """Let fetches of a started consumer wait for `patient_ms` where they ask for all partitions.

    The driver has one fetch per broker under way. A partition whose records are not yet taken is
    left out of it, and once they are, it has to wait for the end of that fetch: so such a one
    keeps to the consumer's `fetch_max_wait_ms`. One that leaves nothing out delays nobody.
    """
    fetcher: Any = consumer._fetcher  # noqa: SLF001  (no public way to it)
    plan, brisk_ms = fetcher._get_actions_per_node, fetcher._fetch_max_wait_ms  # noqa: SLF001

    def planned(assignment: object) -> object:
        patient = not fetcher._records  # noqa: SLF001  (what was fetched and is not yet taken)
        fetcher._fetch_max_wait_ms = max(brisk_ms, patient_ms) if patient else brisk_ms  # noqa: SLF001
        return plan(assignment)

    vars(fetcher)["_get_actions_per_node"] = planned
