"""What is committed is what the code generates, and it is a valid document of its kind."""

import json

import pytest

from sagabus_messages.export import render
from sagabus_messages.export.__main__ import main

from .examples import CONTRACTS

FILES = render()
GENERATED = ("schemas", "vectors")


@pytest.mark.parametrize("name", sorted(FILES))
def test_committed_equals_generated(name: str) -> None:
    assert (CONTRACTS / name).read_text() == FILES[name], "run `make contracts`"


def test_no_generated_file_outlives_its_source() -> None:
    committed = {
        str(path.relative_to(CONTRACTS))
        for folder in GENERATED
        for path in (CONTRACTS / folder).rglob("*")
        if path.is_file()
    }
    assert committed == {name for name in FILES if name.split("/")[0] in GENERATED}


def test_export_is_repeatable(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]  # fixtures
    assert main([str(tmp_path)]) == 0
    first = capsys.readouterr().out.splitlines()
    assert len(first) == len(FILES)
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "", "the second export found nothing to change"
    assert main([]) == 2


def test_asyncapi_references_resolve() -> None:
    document = json.loads(FILES["asyncapi.json"])
    assert document["asyncapi"] == "3.0.0"

    def references(node: object) -> list[str]:
        if isinstance(node, list):
            return [found for item in node for found in references(item)]
        if not isinstance(node, dict):
            return []
        found = [node["$ref"]] if "$ref" in node else []
        return found + [more for value in node.values() for more in references(value)]

    for reference in references(document):
        if reference.startswith("./"):
            assert reference.removeprefix("./") in FILES
            continue
        target = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_every_channel_operation_and_message_has_a_title() -> None:
    document = json.loads(FILES["asyncapi.json"])
    for part in (document["channels"], document["operations"], document["components"]["messages"]):
        assert all(item["title"] for item in part.values())
    assert len(document["channels"]) == 6
    assert len(document["operations"]) == 12
