"""What the suite is told: definitions, templates, hooks."""

from dataclasses import replace
from pathlib import Path

import pytest

from sagabus_conformance import (
    CommandKiller,
    CommandProbe,
    HookFailed,
    Profile,
    Template,
    UnfitProfile,
    profile_of_definition,
)

DEFINITION = Path(__file__).parents[3] / "libs/testkit/src/sagabus_testkit/orders/order.v1.json"
KNOWN = Profile(
    participant="inventory", step="reserve-stock", accepted=Template(b"{}"), schema_id="?"
)


def test_a_definition_says_what_the_step_can_do() -> None:
    found = profile_of_definition(KNOWN, DEFINITION.read_bytes())
    assert (found.cancellable, found.compensatable, found.retriable) == (True, True, False)
    assert found.schema_id == "inventory.reserve-stock.v1"
    assert not found.unknown_allowed


def test_a_step_that_is_not_in_the_definition_is_refused() -> None:
    with pytest.raises(UnfitProfile):
        profile_of_definition(replace(KNOWN, participant="payment"), DEFINITION.read_bytes())


def test_a_retriable_step_has_no_undo() -> None:
    with pytest.raises(UnfitProfile):
        replace(KNOWN, retriable=True, compensatable=True)


def test_a_template_names_the_key() -> None:
    payload = Template(b' {"for": "${business_key}"}\n').for_key("ORD-1", "a.v1")
    assert payload.body == b'{"for": "ORD-1"}'
    with pytest.raises(UnfitProfile, match="duplicate_key"):
        Template(b'{"a": 1, "a": 2}').checked("payload.json")


async def test_a_probe_prints_counts() -> None:
    effect = "3AD5C55D-4ccf-5c33-8466-cf4514818522"
    assert await CommandProbe(f"echo '{{\"{effect}\": 2}}'").count() == {effect.lower(): 2}


@pytest.mark.parametrize("command", ["exit 3", "echo []", "echo nonsense", """echo '{"a": -1}'"""])
async def test_a_probe_that_makes_no_sense_is_said(command: str) -> None:
    with pytest.raises(HookFailed):
        await CommandProbe(command).count()


async def test_a_killer_needs_a_living_process(tmp_path: Path) -> None:
    with pytest.raises(HookFailed):
        await CommandKiller(pid_file=tmp_path / "missing.pid").kill()


async def test_a_killer_kills_and_restarts(tmp_path: Path) -> None:
    pid_file = tmp_path / "process.pid"
    restart = f"sleep 60 >/dev/null 2>&1 & echo $! > {pid_file}"
    killer = CommandKiller(pid_file=pid_file, restart_command=restart)
    await killer.restart()
    first = pid_file.read_text()
    await killer.kill()
    await killer.restart()
    assert pid_file.read_text() != first
    await killer.kill()
