"""Pace, sharing, holds and leases: small pure parts of the relay."""

import pytest

from sagabus_relay.config import RelaySettings
from sagabus_relay.holds import TopicHolds
from sagabus_relay.lease import Lease
from sagabus_relay.pace import Pace, PacePolicy
from sagabus_relay.share import Share, fair_share
from sagabus_relay.slots import Slot

POLICY = PacePolicy(gap_ms=2, idle_first_ms=4, idle_max_ms=20)


def test_a_full_round_is_followed_at_once_and_a_partial_one_after_the_gap() -> None:
    pace = Pace(POLICY)
    assert pace.next_ms(100, 100, 1) == 0
    assert pace.next_ms(3, 100, 1) == 2


def test_idle_waits_grow_to_their_bound_and_start_afresh_after_work() -> None:
    pace = Pace(POLICY)
    waits = [pace.next_ms(0, 100, 0) for _ in range(6)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (4, 20)
    pace.next_ms(1, 100, 0)
    assert pace.next_ms(0, 100, 0) == 4


def test_a_slow_look_is_not_repeated_without_rest() -> None:
    assert Pace(POLICY).next_ms(0, 100, 50) == 100


@pytest.mark.parametrize(
    ("slots", "replicas", "held", "expected"),
    [
        (8, 1, 0, Share(8, 0)),
        (8, 2, 8, Share(0, 4)),
        (8, 3, 3, Share(0, 0)),
        (8, 3, 0, Share(3, 0)),
        (1, 5, 0, Share(1, 0)),
        (0, 0, 0, Share(0, 0)),
    ],
)
def test_fair_share(slots: int, replicas: int, held: int, expected: Share) -> None:
    assert fair_share(slots, replicas, held) == expected


def test_holds_grow_and_end() -> None:
    holds = TopicHolds(first_ms=100, max_ms=300)
    holds.close(["t"], now_ms=0)
    assert holds.held(50) == ["t"]
    assert holds.held(100) == []
    holds.close(["t"], now_ms=100)
    assert holds.held(299) == ["t"]
    holds.close(["t"], now_ms=300)
    assert holds.held(599) == ["t"]
    holds.opened(["t"])
    assert (holds.held(300), holds.count) == ([], 0)


def test_a_lease_counts_from_before_its_renewal_and_ends_for_good() -> None:
    now = 0.0
    lease = Lease(Slot("orders", 0, 1), clock=lambda: now)
    assert not lease.allows()
    lease.extend(asked_at_ms=0, usable_ms=10)
    now = 9.0
    assert lease.allows()
    now = 10.0
    assert not lease.allows()
    lease.extend(asked_at_ms=10, usable_ms=10)
    assert lease.allows()
    lease.end()
    assert not lease.allows()


def test_a_killed_owner_is_replaced_within_five_seconds_by_default() -> None:
    settings = RelaySettings.model_validate(
        {"kafka": "k:1", "postgres": "postgresql://u@h/r", "outboxes": {"o": "postgresql://u@h/o"}}
    )
    # The rest of its lease, then at most one turn of another keeper; what is left opens a producer.
    assert settings.relay_lease_ms + settings.relay_lease_ms // 5 <= 4_000
