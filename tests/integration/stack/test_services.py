"""`sagabus services`: the whole system on the stack of `sagabus up`, as a person explores it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagabus_client import HttpClient, Outcome, StartCommand
from sagabus_core.canonical import JsonValue
from sagabus_messages import json_payload
from sagabus_testkit import eventually_sync

pytestmark = pytest.mark.stack

SAGABUS = [sys.executable, "-m", "sagabus_cli", "--json"]
ORDER: dict[str, JsonValue] = {
    "order": "ORD-1",
    "sku": "widget-1",
    "quantity": 1,
    "card": "visa-1",
    "amount_cents": 1200,
    "address": "1 Main Street",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / ".stack").mkdir()
    yield tmp_path
    sagabus(tmp_path, "down", "--delete-data")


def sagabus(folder: Path, *words: str, code: int = 0) -> Any:
    done = subprocess.run(
        [*SAGABUS, *words], cwd=folder, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def a_new_participant_joins(folder: Path) -> None:
    sagabus(folder, "new", "participant", "parcels")
    joined = subprocess.Popen(
        [*SAGABUS, "join", "parcels"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert joined.stdout is not None
        said = json.loads("".join(iter(joined.stdout.readline, "}\n")) + "}")
        (folder / "parcel.json").write_text('{"reference": "R-1", "amount": 3}')
        start = ("start", "parcels", "--key", "R-1", "--payload", "parcel.json", "--wait")
        done = sagabus(folder, *start)
        assert done["status"] == "COMPLETED"
        assert done["output"]["booking_id"]
        joined.send_signal(signal.SIGTERM)
        assert joined.wait(60) == 0
    finally:
        joined.kill()
        joined.wait()
        if joined.stdout is not None:
            joined.stdout.close()
    assert not any(map(is_alive, said["services"].values()))


def the_api_answers(api: dict[str, str]) -> None:
    """Start and await an order over HTTP, with the key that the stack made for itself."""

    key = Path(api["key_file"]).read_text()
    payload = json_payload({**ORDER}, "order.v1")

    async def order() -> Outcome:
        async with HttpClient(api["url"], api_key=key) as client:
            handle = await client.start(StartCommand("default", "order", "HTTP-1", payload))
            return await client.wait(handle, timeout_s=60)

    assert asyncio.run(order()).status == "COMPLETED"


def test_explore(folder: Path) -> None:
    assert sagabus(folder, "services", code=3)["error"]["code"] == "no_stack"
    sagabus(folder, "up")
    running = subprocess.Popen(
        [*SAGABUS, "services"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout is not None
        said = json.loads("".join(iter(running.stdout.readline, "}\n")) + "}")
        assert "order 1 is ACTIVE" in said["workflow"]
        assert sagabus(folder, "services", code=4)["error"]["code"] == "stack_busy"

        os.kill(said["services"]["shipping"], signal.SIGKILL)
        line = {"workflow": "order", "key": "ORD-1", "payload": ORDER}
        (folder / "orders.jsonl").write_text(json.dumps(line) + "\n")
        outcomes = sagabus(folder, "run", "orders.jsonl", "--timeout", "120")["outcomes"]
        assert list(outcomes) == ["COMPLETED"], "the killed service was started again"

        a_new_participant_joins(folder)
        the_api_answers(said["api"])

        running.send_signal(signal.SIGHUP)
        assert running.wait(60) == 0, "the terminal is gone: everything ends in good order"
    finally:
        running.kill()
        running.wait()
        if running.stdout is not None:
            running.stdout.close()
    eventually_sync(lambda: not any(map(is_alive, said["services"].values())), within=20)
