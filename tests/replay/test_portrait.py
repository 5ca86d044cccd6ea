"""Facts alone draw the same picture of a saga as its snapshot, revision by revision."""

import json
from pathlib import Path

import pytest

from sagabus_core.definitions import parse_definition
from sagabus_core.testing import TinyConditions
from sagabus_messages import Topics, parse_strict
from sagabus_orchestrator.audit.portrait import Portrait
from sagabus_orchestrator.entry import Entry, Scene

from .test_replay import HISTORIES, recorder


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_the_facts_draw_the_snapshot(path: Path) -> None:
    history = json.loads(path.read_text())
    definition = parse_definition(history["document"], TinyConditions())
    portrait, entry, seen = Portrait(), None, 0
    for recorded, decision in recorder().replay(history, definition):
        entry = entry or Entry.new("", definition, decision.snapshot, "start-1")
        entry.take(decision, Scene(Topics(""), recorded["now_at_ms"]))
        for fact in entry.facts[seen:]:
            body = parse_strict(fact.fact)
            assert isinstance(body, dict)
            portrait.take(fact.revision, body)
        seen = len(entry.facts)
        assert list(portrait.differences(decision.snapshot)) == []
    assert seen > 0
