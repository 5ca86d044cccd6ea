"""What one caller may hold at once."""

from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry

from sagabus_orchestrator.api.errors import ApiBusy, CallerBusy
from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_orchestrator.api.shares import Share


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def limited(registry: CollectorRegistry, limit: str) -> float | None:
    return registry.get_sample_value("sagabus_api_limited_total", {"limit": limit})


def test_a_caller_holds_its_share_and_no_more_while_others_go_on(
    registry: CollectorRegistry,
) -> None:
    share = Share("waits", ApiMetrics(registry), most_each=2)
    with ExitStack() as held:
        for caller in ("alice", "alice", "bob"):
            held.enter_context(share.held_by(caller))
        with pytest.raises(CallerBusy) as refused, share.held_by("alice"):
            pass
        assert (refused.value.code, refused.value.retryable) == ("caller_busy", True)
        with share.held_by("bob"):
            pass
    assert limited(registry, "waits_of_caller") == 1
    with share.held_by("alice"), share.held_by("alice"):
        pass


def test_all_callers_together_hold_no_more_than_the_whole(registry: CollectorRegistry) -> None:
    share = Share("scans", ApiMetrics(registry), most_each=2, most=2)
    with ExitStack() as held:
        held.enter_context(share.held_by("alice"))
        held.enter_context(share.held_by("bob"))
        with pytest.raises(ApiBusy), share.held_by("carol"):
            pass
    assert limited(registry, "scans") == 1
    with share.held_by("carol"):
        pass


def test_what_fails_inside_gives_its_place_back(registry: CollectorRegistry) -> None:
    share = Share("requests", ApiMetrics(registry), most_each=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), share.held_by("alice"):
            raise ZeroDivisionError
