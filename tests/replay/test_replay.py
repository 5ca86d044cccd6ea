"""Histories that were recorded once must replay for ever: running sagas outlive releases."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from sagabus_core.definitions import parse_definition
from sagabus_core.engine import from_json
from sagabus_core.testing import TinyConditions

HERE = Path(__file__).parent
HISTORIES = sorted((HERE / "histories").glob("*.json"))


def recorder() -> Any:
    spec = importlib.util.spec_from_file_location("histories", HERE / "histories.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_todays_engine_decides_as_it_did(path: Path) -> None:
    history = json.loads(path.read_text())
    definition = parse_definition(history["document"], TinyConditions())
    for entry, decision in recorder().replay(history, definition):
        issued = [[c.activation, c.command_id, c.expires_at_ms] for c in decision.commands]
        assert decision.snapshot == from_json(entry["snapshot"])
        assert issued == entry["commands"]


def test_every_recording_is_kept() -> None:
    names = {recording.__name__ for recording in recorder().RECORDINGS}
    assert names == {path.stem for path in HISTORIES}
