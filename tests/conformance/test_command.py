"""`sagabus conformance` by its command line: it kills by pid file and starts again by command."""

import json
import os
import shlex
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from sagabus_testkit import LocalStack
from sagabus_testkit.orders import DEFINITION
from sagabus_testkit.system import Servers, System

COUNT = """
import asyncio, asyncpg, json, sys
async def count():
    connection = await asyncpg.connect(sys.argv[1])
    rows = await connection.fetch("select reservation_id::text from reservation")
    print(json.dumps({row[0]: 1 for row in rows}))
asyncio.run(count())
"""
PAYLOAD = '{"order": "${business_key}", "sku": "widget-1", "quantity": 1}'
REFUSED = '{"order": "${business_key}", "sku": "sold-out", "quantity": 1}'


@dataclass(frozen=True)
class Shop:
    """The inventory as a team would run it: a start script that leaves a pid file."""

    system: System
    folder: Path

    @property
    def pid_file(self) -> Path:
        return self.folder / "inventory.pid"

    @property
    def start(self) -> Path:
        return self.folder / "start.sh"

    def write(self) -> None:
        dsn = self.system.database("inventory")
        settings = {**self.system.environment, "SAGABUS_POSTGRES": dsn}
        exports = [f"export {name}={shlex.quote(value)}" for name, value in settings.items()]
        run = f"{sys.executable} -m sagabus_example_inventory >> {self.folder}/log 2>&1 &"
        lines = ["#!/bin/sh", *exports, run, f"echo $! >> {self.folder}/pids"]
        lines.append(f"tail -n 1 {self.folder}/pids > {self.pid_file}")
        self.start.write_text("\n".join([*lines, ""]))
        self.start.chmod(self.start.stat().st_mode | stat.S_IXUSR)
        for name, text in {"good": PAYLOAD, "refused": REFUSED, "broken": '{"order": 1}'}.items():
            (self.folder / f"{name}.json").write_text(text)
        (self.folder / "count.py").write_text(COUNT)

    def pids(self) -> list[int]:
        return [int(line) for line in (self.folder / "pids").read_text().split()]


@pytest.fixture
def shop(stack: LocalStack, topic_prefix: str, tmp_path: Path) -> Iterator[Shop]:
    servers = Servers.of(stack)
    outbox = {"inventory": servers.dsn("inventory", f"{topic_prefix}_inventory")}
    settings = {"relay": {"SAGABUS_OUTBOXES": json.dumps(outbox)}}
    with System(servers, tmp_path / "system", name=topic_prefix, settings=settings) as system:
        system.prepare()
        system.spawn("relay")
        made = Shop(system, tmp_path)
        made.write()
        try:
            yield made
        finally:
            for pid in made.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_it_kills_by_pid_file_and_starts_again_by_command(shop: Shop) -> None:
    assert os.spawnl(os.P_WAIT, shop.start, str(shop.start)) == 0
    folder = shop.folder
    done = shop.system.command(
        *("--json", "conformance", "--participant", "inventory", "--step", "reserve-stock"),
        *("--definition", str(DEFINITION), "--within", "90"),
        *("--payload", f"{folder}/good.json", "--rejected-payload", f"{folder}/refused.json"),
        *("--invalid-payload", f"{folder}/broken.json"),
        *("--pid-file", str(shop.pid_file), "--restart-command", str(shop.start)),
        *(
            "--effects-command",
            f"{sys.executable} {folder}/count.py {shop.system.database('inventory')}",
        ),
        *("--batch", "20", "--kills", "2"),
        within_s=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = {g["name"]: g["verdict"] for g in json.loads(done.stdout)["guarantees"]}
    kills = ("no-command-lost-on-kill", "nothing-twice-on-kill", "fences-survive-a-kill")
    assert {verdicts[name] for name in (*kills, "one-effect-per-effect-id")} == {"kept"}
    assert len(shop.pids()) == 3, "started by hand, and after each of the two kills"
