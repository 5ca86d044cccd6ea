"""The contract of today still serves those who know the last release."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from sagabus_messages.compat import breaking_changes, breaking_topic_changes
from sagabus_messages.export import render

from .examples import CONTRACTS

RELEASES = sorted(path.name for path in (CONTRACTS / "released").iterdir())
FILES = {name: json.loads(text) for name, text in render().items() if name.endswith(".json")}


def released(name: str, release: str = RELEASES[-1]) -> Any:
    return json.loads((CONTRACTS / "released" / release / name).read_text())


@pytest.mark.parametrize("release", RELEASES)
def test_schemas_are_compatible(release: str) -> None:
    folder = CONTRACTS / "released" / release / "schemas"
    names = sorted(path.name for path in folder.iterdir())
    assert names
    for name in names:
        assert f"schemas/{name}" in FILES, f"{name} was released and is gone"
        old = json.loads((folder / name).read_text())
        assert breaking_changes(old, FILES[f"schemas/{name}"]) == []


@pytest.mark.parametrize("release", RELEASES)
def test_topics_are_compatible(release: str) -> None:
    assert breaking_topic_changes(released("topics.json", release), FILES["topics.json"]) == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["canonical", "headers", "instants", "messages", "shards"])
def test_released_vectors_hold_for_ever(release: str, name: str) -> None:
    today = FILES[f"vectors/{name}.json"]
    assert [v for v in released(f"vectors/{name}.json", release) if v not in today] == []


@pytest.mark.parametrize("release", RELEASES)
def test_released_ids_hold_for_ever(release: str) -> None:
    old, today = released("vectors/ids.json", release), FILES["vectors/ids.json"]
    assert old["namespace"] == today["namespace"]
    assert [v for v in old["vectors"] if v not in today["vectors"]] == []


Change = Callable[[dict[str, Any]], object]
BREAKING: dict[str, tuple[Change, str]] = {
    "field removed": (lambda s: s["properties"].pop("reason_code"), "body.reason_code: removed"),
    "field newly required": (lambda s: s["required"].append("reason_code"), "newly required"),
    "field no longer required": (lambda s: s["required"].remove("event_id"), "no longer required"),
    "value removed": (lambda s: s["$defs"]["ResultStatus"]["enum"].remove("HALTED"), "removed"),
    "value added": (lambda s: s["$defs"]["ResultStatus"]["enum"].append("LATE"), "added"),
    "type changed": (lambda s: s["properties"]["attempt"].update(type="string"), "`type` changed"),
    "maximum narrowed": (lambda s: s["properties"]["attempt"].update(maximum=9), "narrowed"),
    "maximum widened": (lambda s: s["properties"]["attempt"].update(maximum=2**40), "widened"),
    "minimum narrowed": (lambda s: s["properties"]["attempt"].update(minimum=2), "narrowed"),
    "limit added": (lambda s: s["properties"]["step"].update(maxLength=5), "narrowed"),
    "pattern changed": (lambda s: s["properties"]["step"].update(pattern="^a$"), "`pattern`"),
    "null refused": (lambda s: s["properties"]["target"]["anyOf"].pop(), "alternatives"),
    "alternative narrowed": (
        lambda s: s["properties"]["target"]["anyOf"][0]["enum"].remove("COMPENSATE"),
        "body.target: values ['COMPENSATE'] removed",
    ),
    "condition dropped": (lambda s: s["allOf"].pop(), "`allOf` changed"),
    "identity changed": (lambda s: s.update({"$id": "urn:x"}), "`$id` changed"),
    "payload member removed": (
        lambda s: s["properties"]["output"]["anyOf"][0]["properties"].pop("data_base64"),
        "body.output.data_base64: removed",
    ),
}


@pytest.mark.parametrize("name", BREAKING)
def test_the_checker_sees(name: str) -> None:
    change, expected = BREAKING[name]
    old = released("schemas/result.v1.json")
    new = copy.deepcopy(old)
    change(new)
    problems = breaking_changes(old, new)
    assert len(problems) == 1
    assert expected in problems[0]


def test_the_checker_accepts_a_new_optional_field_and_new_words() -> None:
    old = released("schemas/result.v1.json")
    new = copy.deepcopy(old)
    new["properties"]["colour"] = {"type": "string"}
    new["description"] = "Said better"
    assert breaking_changes(old, new) == []


TOPIC_CHANGES: dict[str, Change] = {
    "removed": lambda t: t["topics"].pop(0),
    "written_by changed": lambda t: t["topics"][0].update(written_by="anybody"),
    "retention.ms shrank": lambda t: t["topics"][0]["config"].update({"retention.ms": "1"}),
}


@pytest.mark.parametrize("expected", TOPIC_CHANGES)
def test_the_checker_sees_topic_changes(expected: str) -> None:
    old = released("topics.json")
    new = copy.deepcopy(old)
    TOPIC_CHANGES[expected](new)
    assert [expected in problem for problem in breaking_topic_changes(old, new)] == [True]
