"""Schemathesis against the running API: no 5xx, and no answer that the document does not name."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks, openapi
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi import checks as conformance
from tests.integration.orchestrator.support import order

from sagabus_bus import TopicAdmin
from sagabus_orchestrator.api.factory import create_app
from sagabus_testkit.stack import LocalStack
from sagabus_testkit.system import API, SERVICES, Servers, System

from .support import start_body

Operation: TypeAlias = APIOperation[Any, Any, Any, Any]
EXAMPLES = 12
"""Per operation and mode: the whole stays below a minute."""
CHECKS = [
    checks.not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_headers_conformance,
    conformance.response_schema_conformance,
]
SCHEMA = openapi.from_dict(create_app().openapi())
OPERATIONS: dict[str, Operation] = {
    operation.label: operation
    for result in SCHEMA.get_all_operations()
    # A stream has no end that a check could wait for: test_events.py is about them.
    if isinstance(result, Ok) and not (operation := result.ok()).path.endswith("/events")
}


@dataclass
class Running:
    """A running API, its key, and ids of things that exist."""

    url: str
    headers: dict[str, str]
    saga_id: str

    def known(self, operation: Operation) -> dict[str, Any] | None:
        """Return path parameters that exist, so that not every answer is 404."""
        if "{saga_id}" in operation.path:
            return {"saga_id": self.saga_id}
        if "{version}" in operation.path:
            return {"workflow": "order", "version": 1}
        return None


@pytest.fixture(scope="module")
def running(stack: LocalStack) -> Iterator[Running]:
    kinds = [*(kind for kind in SERVICES if kind.name == "orchestrator"), API]
    directory = stack.directory / "schema"
    with System(Servers.of(stack), directory, name="schema", kinds=kinds) as system:
        system.start()
        asyncio.run(make_topics(system))
        file = Path(directory) / "key"
        made = system.command(
            *("keys", "create", "schema", "--grant", "admin", "--all-tenants", "--file", str(file))
        )
        assert made.returncode == 0, made.stdout + made.stderr
        yield prepare(system.api_url, file.read_text().strip())


def prepare(url: str, key: str) -> Running:
    """Publish a workflow and start a saga."""
    headers = {"x-api-key": key}
    with httpx.Client(base_url=url, headers=headers, timeout=30) as client:
        client.post("/v1/definitions", json=order()).raise_for_status()
        client.post("/v1/definitions/order/1/activate", json={}).raise_for_status()
        started = client.post("/v1/sagas", json=start_body())
        started.raise_for_status()
    return Running(url, headers, started.json()["saga_id"])


async def make_topics(system: System) -> None:
    async with TopicAdmin(system.connection) as admin:
        await admin.ensure(system.topics.catalogue(["inventory", "payment", "shipping"], 4))


def probe(running: Running, operation: Operation, mode: GenerationMode, known: Any) -> None:
    """Send generated requests and hold each answer to the document."""

    @given(case=operation.as_strategy(generation_mode=mode, path_parameters=known))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def run(case: Any) -> None:
        if "timeout_ms" in (case.query or {}):
            case.query["timeout_ms"] = 1  # nobody here waits for a minute
        response = case.call(base_url=running.url, headers=running.headers, timeout=30)
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as group:
            said = "; ".join(str(failure) for failure in group.exceptions)
            request = json.dumps(case.as_transport_kwargs(), default=repr)[:600]
            pytest.fail(f"{said}\n{request}\n{response.status_code} {response.text[:600]}")

    run()


@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_every_answer_is_documented(running: Running, label: str) -> None:
    operation = OPERATIONS[label]
    known = running.known(operation)
    probe(running, operation, GenerationMode.POSITIVE, known)
    if "DELETE" not in label:  # nothing in it can be wrong
        probe(running, operation, GenerationMode.NEGATIVE, None)
