"""The AsyncAPI document of a participant: complete, resolvable, and what is committed."""

from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ships no types; used for tests alone
import pytest

from sagabus_example_inventory.handlers import inventory
from sagabus_participant.__main__ import main

COMMITTED = Path(__file__).parents[2] / "services/inventory/asyncapi.json"
SOURCE = "sagabus_example_inventory.handlers:inventory"


def test_the_committed_document_is_that_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["asyncapi", SOURCE]) == 0
    assert COMMITTED.read_text() == capsys.readouterr().out, (
        f"python -m sagabus_participant asyncapi {SOURCE} > services/inventory/asyncapi.json"
    )


def references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for item in node for found in references(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for item in node.values() for found in references(item)]


def test_every_reference_resolves_and_every_step_has_its_payload() -> None:
    document = inventory.asyncapi()
    for reference in references(document):
        if reference.startswith("#/$defs/"):
            continue  # within a schema that has an id of its own
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    assert document["channels"]["command"]["address"] == "sagabus.command.inventory.v1"
    assert list(document["channels"]["result"]["messages"]) == ["reserve-stock", "confirm"]
    schemas = document["components"]["schemas"]
    reserve = jsonschema.Draft202012Validator(schemas["reserve-stock.input"])
    assert reserve.is_valid({"order": "o", "sku": "s", "quantity": 1})
    assert not reserve.is_valid({"order": "o", "sku": "s", "quantity": 0})
    assert "reservation_id" in schemas["reserve-stock.output"]["properties"]
    assert "confirm.output" not in schemas


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["asyncapi", "sagabus_example_inventory.handlers:SQL"]) == 2
    assert "MODULE:PARTICIPANT" in capsys.readouterr().err
