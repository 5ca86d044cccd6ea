"""The verdict is bad for each single thing that is wrong, and the document has its keys."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sagabus_testkit.orders import Verdict

from .audit import snapshot_of
from .findings import Findings
from .receivers import Effects, missing_effects, stray_effects
from .test_audit import CANCELLED, DONE, WORKFLOW, recorded
from .verdict import ChaosVerdict

KEYS = {
    "seed",
    "started",
    "completed",
    "compensated",
    "manual",
    "stuck",
    "lost",
    "duplicate_effects",
    "invariant_violations",
    "faults",
    "longest_stall_s",
}
CLEAN = Verdict(2, 1, 1, 0, [], [], [], [], [], 900)


def verdict(orders: Verdict = CLEAN, **found: object) -> ChaosVerdict:
    findings = Findings(orders)
    for name, value in found.items():
        setattr(findings, name, value)
    return ChaosVerdict(7, 20.0, findings, {"kill": 1})


def test_a_clean_run_is_good() -> None:
    document = verdict().document()
    assert document["good"]
    assert document.keys() >= KEYS
    assert document["faults"] == {"kill": 1}


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("stuck", lambda: verdict(replace(CLEAN, stuck=["A-1: stuck"]))),
        ("lost", lambda: verdict(replace(CLEAN, lost=["A-1: lost"]))),
        ("lost", lambda: verdict(missing=["A-1: ship succeeded"])),
        ("duplicate_effects", lambda: verdict(replace(CLEAN, duplicate_effects=["A-1: twice"]))),
        ("invariant_violations", lambda: verdict(violations=["A-1: I1"])),
        ("unexpected", lambda: verdict(replace(CLEAN, unexpected=["A-1: MANUAL"]))),
        ("disagreements", lambda: verdict(replace(CLEAN, disagreements=["A-1: stock"]))),
        ("disagreements", lambda: verdict(strays=["A-1: done"])),
        ("dead_letters", lambda: verdict(dead_letters=1)),
    ],
)
def test_each_wrong_thing_is_counted_and_makes_it_bad(
    key: str, bad: Callable[[], ChaosVerdict]
) -> None:
    document = bad().document()
    assert document[key] == 1
    assert not document["good"]
    assert bad().table()[-1] == "BAD"


@pytest.mark.parametrize(
    "bad",
    [
        replace(verdict(), faults={}),
        replace(verdict(), failed=["the fault kill of relay failed"]),
        replace(verdict(), exits={"relay": 2}),
        verdict(left=["relay: 3 records waiting"]),
    ],
)
def test_a_run_that_was_not_what_it_should_be_is_bad(bad: ChaosVerdict) -> None:
    assert not bad.document()["good"]


def test_effect_journals_are_held_against_the_saga() -> None:
    done = snapshot_of(recorded(DONE))
    cancelled = snapshot_of(recorded(CANCELLED))
    nobody = Effects({})
    assert len(list(missing_effects(done, WORKFLOW, nobody))) == 4
    assert list(stray_effects(cancelled, WORKFLOW, nobody)) == []
    everything = Effects({name: AlwaysDone() for name in ("inventory", "payment", "shipping")})
    assert list(missing_effects(done, WORKFLOW, everything)) == []
    assert len(list(stray_effects(cancelled, WORKFLOW, everything))) == 1


class AlwaysDone(dict[str, str]):
    """A journal in which every effect has happened."""

    def get(self, _key: str, _default: object = None) -> str:
        return "SUCCEEDED"
