"""A short run with a fixed seed: the whole of chaos works, and finds nothing wrong."""

from pathlib import Path

from sagabus_testkit import LocalStack

from .campaign import Campaign, run_campaign

SEED = 7


def test_a_short_run_is_good(stack: LocalStack, tmp_path: Path) -> None:
    said: list[str] = []
    campaign = Campaign(SEED, 20.0, tmp_path, rate=10.0)

    verdict = run_campaign(campaign, stack, said.append)

    document = verdict.document()
    assert document["good"], "\n".join([*said, *verdict.table()])
    assert document["started"] == 200
    assert sum(verdict.faults.values()) == len(campaign.schedule)
