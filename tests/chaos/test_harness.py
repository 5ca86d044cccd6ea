"""Chaos itself: what a broken relay loses and a broken participant doubles must be reported."""

from dataclasses import replace
from pathlib import Path

import pytest

from sagabus_testkit import LocalStack
from sagabus_testkit.system import SERVICES

from .campaign import Campaign, run_campaign
from .schedule import Fault
from .verdict import ChaosVerdict

pytestmark = pytest.mark.drill
FAULTS = (Fault(2.0, "kill", "timer", 0.5, 1), Fault(5.0, "repeat", "result", 0.0, 2))


def run_with(broken: str, stack: LocalStack, logs: Path) -> ChaosVerdict:
    """Run ten seconds of orders with one service of `broken` instead of the real one."""
    kinds = [
        replace(kind, module=f"tests.chaos.broken_{broken}") if kind.name == broken else kind
        for kind in SERVICES
    ]
    campaign = Campaign(
        1, 10.0, logs, 20.0, settle_s=25.0, name=f"broken-{broken}", kinds=kinds, faults=FAULTS
    )
    return run_campaign(campaign, stack, lambda _: None)


def test_a_relay_that_forgets_records_is_found(stack: LocalStack, tmp_path: Path) -> None:
    document = run_with("relay", stack, tmp_path).document()
    assert not document["good"]
    assert document["lost"] or document["stuck"]
    assert document["duplicate_effects"] == 0


def test_a_participant_that_works_twice_is_found(stack: LocalStack, tmp_path: Path) -> None:
    document = run_with("shipping", stack, tmp_path).document()
    assert not document["good"]
    assert isinstance(document["duplicate_effects"], int)
    assert document["duplicate_effects"] >= 3
    assert (document["lost"], document["stuck"], document["invariant_violations"]) == (0, 0, 0)
