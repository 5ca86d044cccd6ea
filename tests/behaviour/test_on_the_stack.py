"""The behaviour suite on real parts: orchestrator, timer, relay, Kafka, Postgres, the SDK."""

from collections.abc import Mapping

import pytest

from .live import Played
from .scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_behaviour(scenario: Scenario, played: Mapping[str, Played]) -> None:
    end = played[scenario.name]
    scenario.judge(end.saga, end.part.books)
