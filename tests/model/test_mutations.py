"""The checker can fail: every departure undone, every seeded fault, is found by a short trace."""

from __future__ import annotations

import pytest
from tests.model.explore import explore
from tests.model.mutations import MUTATIONS, Mutation

LONGEST_TRACE = 16


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_fault_is_found(mutation: Mutation) -> None:
    with mutation.applied():
        report = explore(mutation.scenario, 100_000, first=True)
    found = {kind: finding for kind, finding in report.findings.items() if kind in mutation.kinds}
    assert found, f"{mutation.name}: {report.states} states, {sorted(report.findings)}"
    assert min(len(finding.trace) for finding in found.values()) <= LONGEST_TRACE
