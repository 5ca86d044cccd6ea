"""The schedule is a pure function: the same seed replays the same faults."""

from collections import Counter
from itertools import pairwise

import pytest

from .schedule import DECK, SERVICES, Fault, plan

LONG_S = 600.0
PLAN_OF_7 = [
    (2.0, "slow", "postgres"),
    (6.97, "crash", "kafka"),
    (10.93, "repeat", "wakeup"),
]


def test_the_same_seed_gives_the_same_faults() -> None:
    assert plan(7, 60.0) == plan(7, 60.0)
    assert plan(7, 60.0) != plan(8, 60.0)


def test_a_plan_is_the_same_on_every_machine() -> None:
    assert [(f.at_s, f.kind, f.target) for f in plan(7, 12.0)] == PLAN_OF_7


@pytest.mark.parametrize("seed", range(20))
def test_a_long_run_deals_every_card(seed: int) -> None:
    dealt = {(fault.kind, fault.target) for fault in plan(seed, LONG_S)}
    assert dealt == {(card.kind, card.target) for card in DECK}


def test_every_service_is_killed_and_frozen() -> None:
    dealt = {(fault.kind, fault.target) for fault in plan(1, LONG_S)}
    assert {("kill", name) for name in (*SERVICES, "cards")} <= dealt
    assert {("freeze", name) for name in SERVICES} <= dealt


@pytest.mark.parametrize("seed", range(20))
def test_faults_are_over_in_time_and_in_order(seed: int) -> None:
    faults = plan(seed, 60.0)
    assert all(fault.at_s + fault.lasts_s <= 60.0 for fault in faults)
    assert all(one.at_s <= other.at_s for one, other in pairwise(faults))
    assert len(faults) >= 12


@pytest.mark.parametrize("seed", range(20))
def test_several_faults_overlap_but_never_at_one_place(seed: int) -> None:
    place = {(card.kind, card.target): card.place for card in DECK}
    faults = plan(seed, LONG_S)
    overlaps: Counter[bool] = Counter()
    for number, fault in enumerate(faults):
        for other in faults[number + 1 :]:
            if other.at_s < fault.at_s + fault.lasts_s:
                same = place[fault.kind, fault.target] == place[other.kind, other.target]
                overlaps[same] += 1
    assert not overlaps[True]
    assert overlaps[False] >= 60


def test_too_little_time_is_no_fault() -> None:
    assert plan(1, 1.0) == []
    assert all(isinstance(fault, Fault) for fault in plan(1, 5.0))
