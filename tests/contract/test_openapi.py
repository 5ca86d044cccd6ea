"""The committed OpenAPI document is what the API serves, every answer named, nothing open."""

import json
from typing import Any

import pytest

from sagabus_orchestrator.api.export import NAME, main
from sagabus_orchestrator.api.factory import create_app
from sagabus_orchestrator.api.identity import Permission
from sagabus_orchestrator.api.openapi import document_text
from sagabus_orchestrator.api.statuses import STATUS_OF

from .examples import CONTRACTS
from .test_errors import raised, table

TEXT = document_text(create_app())
DOCUMENT: dict[str, Any] = json.loads(TEXT)
LOCAL = {"usage", "unreadable_file", "unwritable_file", "invalid_address"}
"""Raised by the command line of the service, which speaks no HTTP."""
WORKERS = {"turn_lost", "rights_lost"}
"""Raised in workers, where nobody waits for an answer."""
OPERATIONS = {
    f"{method} {path}": operation
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
}


def test_committed_equals_generated() -> None:
    assert (CONTRACTS / NAME).read_text() == TEXT, "run `make contracts`"


def test_export_is_repeatable(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]  # fixtures
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / NAME).read_text() == TEXT
    capsys.readouterr()
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    assert main([]) == 2


def test_it_is_openapi_3_1_and_its_references_resolve() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")

    def references(node: object) -> list[str]:
        if isinstance(node, list):
            return [found for item in node for found in references(item)]
        if not isinstance(node, dict):
            return []
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]

    for reference in references(DOCUMENT):
        target: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_operation_says_who_may_and_what_it_answers(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation["summary"]
    assert operation["description"]
    assert operation["security"]
    assert set(operation["x-permissions"]) <= {p.value for p in Permission}
    assert operation["x-permissions"]
    assert {"400", "401", "403", "413", "500", "503"} <= operation["responses"].keys()
    for status, response in operation["responses"].items():
        assert response["description"]
        if int(status) >= 400:
            (kind,) = response["content"]
            assert kind == "application/problem+json"


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("code", sorted(STATUS_OF))
def test_the_status_of_a_code_is_the_documented_one(code: str) -> None:
    assert table()[code][-1].strip() == str(STATUS_OF[code])


@pytest.mark.parametrize(
    "code", sorted(raised("orchestrator", "core", "messages", "store") - LOCAL - WORKERS)
)
def test_no_code_that_the_service_raises_has_another_status(code: str) -> None:
    _, _, retryable, status = table()[code]
    default = 503 if retryable.strip() == "yes" else 500
    assert STATUS_OF.get(code, default) == int(status)
