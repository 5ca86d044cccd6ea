"""The behaviour suite on the kit in memory."""

import pytest

from sagabus_testkit.memory import KitMaker

from .scenarios import SCENARIOS, Scenario
from .workflows import LOCAL, STEPS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
async def test_behaviour(scenario: Scenario, saga_kit: KitMaker) -> None:
    kit = saga_kit(scenario.document)
    for step in STEPS:
        kit.stub(step, local=step in LOCAL)
    scenario.given(kit)
    saga = await kit.run(deadline_ms=scenario.deadline_ms)
    scenario.judge(saga, kit.books)


def test_the_names_are_unique() -> None:
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS)
