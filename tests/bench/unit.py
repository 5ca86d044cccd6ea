"""The unit of work: a three-step saga with a 300-byte payload, on a system of its own."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg
from tests.bench import clerk

from sagabus_bus import TopicAdmin
from sagabus_client import StartCommand
from sagabus_core.canonical import JsonValue
from sagabus_messages import json_payload
from sagabus_testkit import LocalStack
from sagabus_testkit.system import Servers, ServiceKind, System

__all__ = ["TENANT", "WORKFLOW", "Bench", "start_of", "three_steps"]

ROOT: Final = Path(__file__).resolve().parents[2]
TENANT: Final = "acme"
WORKFLOW: Final = "three-steps"
PARTITIONS: Final = 4
KINDS: Final = (
    ServiceKind("orchestrator", "sagabus_orchestrator"),
    ServiceKind("timer", "sagabus_timer"),
    ServiceKind("relay", "sagabus_relay", has_outbox=False),
    ServiceKind(clerk.NAME, "tests.bench.clerk"),
)
FIELDS: Final = {"account": "string", "cents": "integer", "note": "string"}


def three_steps() -> dict[str, object]:
    """Return the definition: three compensatable steps in sequence, each told the whole order."""
    retried = {"timeout_ms": 20_000, "attempts": 10, "backoff": {"initial_ms": 500, "max_ms": 5000}}
    return {
        "workflow": WORKFLOW,
        "version": 1,
        "variables": FIELDS,
        "input": {
            "content_type": "application/json",
            "schema_id": "order.v1",
            "set": {name: f"/{name}" for name in FIELDS},
        },
        "steps": {
            step: {
                "participant": clerk.NAME,
                "kind": "compensatable",
                "cancellable": True,
                "unknown_allowed": False,
                "timeout_policy": "accept_late_success",
                "payload": {
                    "content_type": "application/json",
                    "schema_id": f"{clerk.NAME}.{step}.v1",
                },
                "execute": {"timeout_ms": 60_000},
                "cancel": retried,
                "compensate": retried,
                "resolve": {**retried, "budget_ms": 180_000},
            }
            for step in clerk.STEPS
        },
        "flow": {
            "sequence": [
                {"step": step, "input": {name: name for name in FIELDS}} for step in clerk.STEPS
            ]
        },
    }


def start_of(key: str, number: int) -> StartCommand:
    """Return a start whose payload has about 300 bytes."""
    order: dict[str, JsonValue] = {
        "account": f"A-{number % 1000}",
        "cents": number,
        "note": "x" * 250,
    }
    return StartCommand(TENANT, WORKFLOW, f"{key}-{number}", json_payload(order, "order.v1"))


@dataclass(frozen=True, slots=True)
class Bench:
    """A running system that the unit is measured on."""

    stack: LocalStack
    system: System

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Bench]:
        """Start servers and services; all end with the block."""
        path = os.environ.get("PYTHONPATH", "")
        settings = {clerk.NAME: {"PYTHONPATH": f"{ROOT}{os.pathsep}{path}".rstrip(os.pathsep)}}
        name = f"bench{secrets.token_hex(2)}"
        with LocalStack(f"bench-{os.getpid()}") as stack:
            stack.start()
            directory = ROOT / "build" / "bench-logs"
            servers = Servers.of(stack)
            with System(servers, directory, name=name, settings=settings, kinds=KINDS) as system:
                bench = cls(stack, system)
                asyncio.run(bench._make_topics())
                system.start()
                bench._publish()
                asyncio.run(bench._make_table())
                yield bench

    async def connect(self, service: str) -> asyncpg.Connection:
        """Return a connection to a service's database."""
        return await asyncpg.connect(
            self.system.database(service), server_settings={"application_name": "bench"}
        )

    async def _make_topics(self) -> None:
        async with TopicAdmin(self.system.connection) as admin:
            await admin.ensure(self.system.topics.catalogue([clerk.NAME], PARTITIONS))

    async def _make_table(self) -> None:
        conn = await self.connect(clerk.NAME)
        try:
            await conn.execute(clerk.TABLE)
        finally:
            await conn.close()

    def _publish(self) -> None:
        path = self.system.directory / "three-steps.v1.json"
        path.write_text(json.dumps(three_steps()))
        done = self.system.command("definitions", "publish", str(path), "--activate")
        if done.returncode != 0:
            raise RuntimeError(f"publishing failed: {done.stderr.strip()}")
