"""Quick ways to look into the running system, and to put records into it."""

import asyncio
import contextlib
import io
import json
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from sagabus_bus import Published, Publisher, Tail, TopicAdmin
from sagabus_cli.app import run
from sagabus_core.canonical import JsonValue
from sagabus_messages import OutboxRow, Record
from sagabus_testkit import LocalStack
from sagabus_testkit.orders import DEFINITION
from sagabus_testkit.system import System

from .collector import Collector
from .signing import Keys


@dataclass(frozen=True, slots=True)
class Shop:
    """The system under test with its order workflow, and probes."""

    system: System
    stack: LocalStack
    collector: Collector
    keys: Keys

    def sagabus(self, *arguments: str, expect: int = 0) -> str:
        """Run the command and return what it printed; the exit code must be as expected.

        In a thread of this process, which saves the two seconds that a new interpreter takes.
        """
        said = io.StringIO()
        with (
            mock.patch.dict(
                os.environ, {**self.system.environment, **self.keys.environment("orchestrator")}
            ),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            ThreadPoolExecutor(1) as executor,
        ):
            code = executor.submit(run, arguments).result()
        assert "Traceback" not in said.getvalue()
        assert code == expect, said.getvalue()
        return said.getvalue()

    def document(self, *arguments: str, expect: int = 0) -> Any:
        """Run the command with --json and return what it said."""
        return json.loads(self.sagabus(*arguments, "--json", expect=expect))

    def ask(self, service: str, query: str) -> Any:
        """Return the first value of a query on a service's database."""
        return self.system.servers.postgres.ask(query, f"{self.system.name}_{service}")

    def metrics(self, service: str) -> str:
        """Return what a process tells Prometheus."""
        port = self.system._environments[service]["SAGABUS_HEALTH_PORT"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    async def dead_letters(self) -> int:
        """Return how many dead letters there are in all topics."""
        topics = self.system.topics.catalogue(["inventory", "payment", "shipping"])
        names = [spec.name for spec in topics if spec.is_dead_letter]
        async with TopicAdmin(self.system.connection) as admin:
            return sum((await admin.end_offsets(names)).values())

    async def publish(self, row: OutboxRow) -> None:
        """Put a record into Kafka, as anybody with access could."""
        publisher = Publisher(self.system.connection)
        try:
            (outcome,) = await publisher.publish([row])
        finally:
            await publisher.close()
        assert isinstance(outcome, Published)

    async def find_dead_letter(self, topic: str, ce_id: str, within_s: float = 30.0) -> Record:
        """Wait for the dead letter of the record with this ce_id and return it."""
        async with (
            asyncio.timeout(within_s),
            Tail(self.system.connection, [f"{topic}.dlt"], begin="beginning") as tail,
        ):
            while True:
                for record in await tail.poll():
                    if dict(record.headers)["ce_id"] == ce_id.encode():
                        return record


def order_payload(**changes: str) -> dict[str, JsonValue]:
    """Return the payload of an order that waits in its first step."""
    return {
        "order": "OPS",
        "sku": "being-counted",
        "quantity": 1,
        "card": "visa-1",
        "amount_cents": 100,
        "address": "1 Main Street",
        **changes,
    }


def order_file(folder: Path, **changes: str) -> str:
    """Write such a payload and return its path."""
    path = folder / "order.json"
    path.write_text(json.dumps(order_payload(**changes)))
    return str(path)


def patient_order(shop: Shop, folder: Path) -> None:
    """Let there be a workflow `patient-order`, whose first step may take ten minutes."""
    patient = json.loads(DEFINITION.read_text())
    patient["steps"]["reserve-stock"]["execute"]["timeout_ms"] = 600_000
    definition = folder / "patient.json"
    definition.write_text(json.dumps({**patient, "workflow": "patient-order"}))
    shop.sagabus("definitions", "publish", str(definition), "--activate")
