"""A fetch waits for long at the broker only where no partition waits for the fetch."""

from types import SimpleNamespace
from typing import Any

from sagabus_bus.patience import fetch_patiently


def fetcher_with(brisk_ms: int) -> Any:
    fetcher = SimpleNamespace(_fetch_max_wait_ms=brisk_ms, _records={})
    fetcher._get_actions_per_node = lambda _assignment: fetcher._fetch_max_wait_ms
    fetch_patiently(SimpleNamespace(_fetcher=fetcher), 250)  # type: ignore[arg-type]  # what it uses
    return fetcher


def test_a_fetch_of_all_partitions_may_wait() -> None:
    assert fetcher_with(20)._get_actions_per_node(None) == 250


def test_a_fetch_that_leaves_one_out_ends_soon() -> None:
    fetcher = fetcher_with(20)
    fetcher._records = {"a partition": "its records"}
    assert fetcher._get_actions_per_node(None) == 20
    fetcher._records = {}
    assert fetcher._get_actions_per_node(None) == 250


def test_who_asked_for_more_patience_keeps_it() -> None:
    assert fetcher_with(500)._get_actions_per_node(None) == 500
