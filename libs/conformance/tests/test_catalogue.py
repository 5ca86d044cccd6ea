"""The catalogue is whole, and the README says the same."""

from pathlib import Path

from sagabus_conformance import CATALOGUE, Guarantee
from sagabus_conformance.checks import ALL
from sagabus_conformance.checks.crash import PROVES
from sagabus_conformance.suite import AUDITED

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_every_guarantee_has_its_promise_and_stands_in_the_readme() -> None:
    assert set(CATALOGUE) == set(Guarantee)
    for guarantee, promise in CATALOGUE.items():
        assert f"| `{guarantee.value}` | {promise.text} |" in README
        assert promise.mend.endswith(".")


def test_every_guarantee_is_proved_by_something() -> None:
    proved = {guarantee for check in ALL for guarantee in check.proves}
    fences = {Guarantee.KILL_KEEPS_FENCES}
    assert proved | set(PROVES) | set(AUDITED) | fences == set(Guarantee)
