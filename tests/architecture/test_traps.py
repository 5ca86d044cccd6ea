"""Every known trap of systems of this kind is closed by tests that carry its number.

`pytest -k trap_` lists them: `test_trap_01_...` to `test_trap_22_...`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagabus_example_inventory.app import build as build_inventory
from sagabus_example_inventory.config import InventorySettings
from sagabus_orchestrator.app import build as build_orchestrator
from sagabus_orchestrator.config import OrchestratorSettings
from sagabus_runtime import SettingsError
from sagabus_timer import TimerSettings
from sagabus_timer import build as build_timer

ROOT = Path(__file__).parents[2]
TRAPS = {
    1: "a relay reads 'id greater than the last' and skips rows that commit late",
    2: "one bad outbox row, or a missing topic, stops the whole relay",
    3: "offsets are committed before the work is durable",
    4: "one unhandled exception blocks a channel; an outage is taken for poison",
    5: "deduplication forgets sooner than the broker",
    6: "deleting old deduplication rows deadlocks and bloats",
    7: "a reply to an older attempt moves the saga",
    8: "a new release shifts running sagas",
    9: "a failing compensation ends the saga, nobody can retry",
    10: "an instance stands still: no timer, no error, no metric",
    11: "a failing undo is retried without a pause",
    12: "a process keeps acting on what it no longer owns",
    13: "a server restarts and runs stay pending for ever",
    14: "a consumer blocks after a rebalance broke a commit",
    15: "undo handlers start at once, in no order",
    16: "saga data has a small limit and depends on class names",
    17: "messages are sent before the state is saved, or lost after it",
    18: "a relay with several workers, or a revived owner, breaks the order of a key",
    19: "a repeat on the next day is taken for new",
    20: "audit readers page by sequence and skip rows that commit late",
    21: "a bug behind the effect is reported as failed",
    22: "two names that hold the separator derive the same effect id",
}
NOT_YET: dict[int, str] = {}
SOURCES = sorted([*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")])
PRODUCERS = {
    *("sagabus_bus", "sagabus_relay", "sagabus_client"),
    *("sagabus_testkit", "sagabus_cli", "sagabus_conformance"),
}
"""The relay produces; outside of handlers so do clients, tools and tests."""


def numbers() -> dict[int, list[str]]:
    """Return the tests of each trap, by the numbers in their names."""
    found: dict[int, list[str]] = {}
    for path in [*ROOT.glob("libs/*/tests/*.py"), *ROOT.glob("services/*/tests/*.py"),
                 *ROOT.glob("tests/**/*.py")]:  # fmt: skip
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for number in re.findall(r"trap_(\d\d)", node.name):
                    found.setdefault(int(number), []).append(node.name)
    return found


@pytest.mark.parametrize("number", sorted(TRAPS.keys() - NOT_YET))
def test_each_trap_has_a_test(number: int) -> None:
    assert numbers().get(number), f"no test_trap_{number:02d}_...: {TRAPS[number]}"


def test_no_test_names_a_trap_that_is_none() -> None:
    assert set(numbers()) <= set(TRAPS)
    for number, why in NOT_YET.items():
        assert number not in numbers(), f"it exists now, so it is no longer to come: {why}"


def calls(path: Path) -> Iterator[tuple[str, str]]:
    """Return receiver and name of every method that a module calls."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func.value), node.func.attr


def test_trap_03_one_place_commits_offsets_and_does_it_behind_the_work() -> None:
    """Every consumer of the repo is a BatchSubscriber, whose own tests prove the order."""
    sources = [path for path in SOURCES if "sagabus_testkit" not in path.parts]  # it breaks things
    places = {
        path.name
        for path in sources
        for receiver, name in calls(path)
        if name == "commit" and receiver.rpartition(".")[2] in {"consumer", "_consumer"}
    }
    assert places == {"subscriber.py"}
    makers = {path.parts[-2] for path in sources if "AIOKafkaConsumer" in path.read_text()}
    assert makers == {"sagabus_bus"}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def test_trap_17_no_handler_produces_by_itself() -> None:
    """Orchestrator, timer and participants write to their outbox, in the transaction of it all."""
    producing = {
        path.relative_to(ROOT).parts[3]
        for path in SOURCES
        if {"Publisher", "AIOKafkaProducer"} & set(imports(path))
    }
    assert "sagabus_relay" in producing, "the search finds something"
    assert producing <= PRODUCERS


PLACES = {"kafka": "k:1", "postgres": "postgresql://u@h/d"}


def start_orchestrator(days: int) -> object:
    return build_orchestrator(OrchestratorSettings.model_validate({**PLACES, "inbox_days": days}))


def start_participant(days: int) -> object:
    return build_inventory(InventorySettings.model_validate({**PLACES, "inbox_days": days}))


def start_timer(days: int) -> object:
    return build_timer(TimerSettings.model_validate({**PLACES, "timer_window_days": days}))


STARTS = {
    "orchestrator": start_orchestrator,
    "participant": start_participant,
    "timer": start_timer,
}


@pytest.mark.parametrize("service", STARTS)
def test_trap_05_no_service_starts_with_a_window_below_retention_plus_redrive_age(
    service: str,
) -> None:
    start = STARTS[service]
    start(22)
    with pytest.raises(SettingsError) as refused:
        start(21)  # topics keep 7 days, dead letters 14
    assert refused.value.code == "inbox_window_too_short"
