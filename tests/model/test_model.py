"""The quick profile of the model check: exhausted and clean; `make model-check` does all of it."""

from __future__ import annotations

import pytest
from tests.model.explore import Report, explore
from tests.model.scenarios import FULL, QUICK
from tests.model.world import Scenario


def _story(report: Report) -> str:
    return "\n".join(
        line for finding in report.findings.values() for line in (finding.problem, *finding.trace)
    )


@pytest.mark.parametrize("scenario", QUICK, ids=lambda scenario: scenario.name)
def test_every_reachable_state_is_safe(scenario: Scenario) -> None:
    report = explore(scenario)
    assert report.exhausted
    assert report.safe, _story(report)
    if scenario.name == "undo-pause":
        assert report.statuses["PAUSED COMPENSATING WAITING_RESOLUTION"], "no undo is in doubt"


def test_the_same_exploration_finds_the_same_states() -> None:
    first, second = explore(QUICK[0]), explore(QUICK[0])
    assert (first.states, first.transitions) == (second.states, second.transitions)


def test_scenarios_bear_their_own_names() -> None:
    names = [scenario.name for scenario in FULL]
    assert len(names) == len(set(names))
