"""Killed at every statement boundary, the orchestrator ends where it ends without a crash."""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sagabus_core.canonical import JsonValue
from sagabus_messages import unpack_headers
from sagabus_orchestrator.quotas import OPERATION, START
from sagabus_orchestrator.tenants import DAY_MS

from .crash_world import ENDS, document
from .support import Rig, declared_failpoints, open_rig

ROOT = Path(__file__).parents[3]
EXIT = 137
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


POINTS = [*declared_failpoints(), "store.before-commit", "store.commit", "store.after-commit"]


class Children:
    """Runs a process of the orchestrator and tells how it ended."""

    def __init__(self) -> None:
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.orchestrator.crash_world"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, **request: JsonValue) -> int:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(request) + "\n")
        self._zygote.stdin.flush()
        while not (answer := self._zygote.stdout.readline().strip()).lstrip("-").isdecimal():
            assert self._zygote.poll() is None, "the zygote died"
            del answer
        return int(answer)

    def close(self) -> None:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.close()
        self._zygote.wait(10)
        self._zygote.stdout.close()


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    opened = Children()
    yield opened
    opened.close()


def timeless(value: JsonValue) -> JsonValue:
    """Return a value without what depends on the hour."""
    if isinstance(value, dict):
        return {name: timeless(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [timeless(item) for item in value]
    if isinstance(value, str):
        return INSTANT.sub("T", value)
    return "T" if isinstance(value, int) and value > 10**12 else value


TABLES = {
    "saga": "select id, status, control, revision, start_id, snapshot, armed_at_ms is null as free"
    " from saga order by id",
    "key": "select id, request_digest, field_digests, final_status from saga_key order by id",
    "journal": "select saga_id, revision, ordinal, fact from journal order by 1, 2, 3",
    "inbox": "select source, ce_id from inbox order by 1, 2",
    "deferred": "select saga_id, topic from deferred_message order by id",
    "early": "select saga_id, topic from early_result order by id",
    "signal": "select signal, label from engine_signal order by id",
    "operation": "select operation_id, saga_id, kind, outcome from operation order by 1",
    "audit": "select kind, actor, permission, tenant, workflow, saga_id, subject, operation_id,"
    " reason, outcome, detail from audit where kind like 'saga:%' order by seq",
    "held": "select saga_id from held_saga order by 1",
    "rate": "select tenant, action, used from action_rate order by 1, 2",
    "quota": "select tenant, max_active, active from tenant_quota order by 1",
}


async def state(rig: Rig) -> dict[str, JsonValue]:
    """Return what is in the tables, apart from times."""
    found: dict[str, JsonValue] = {}
    async with rig.database.connection() as conn:
        for name, query in TABLES.items():
            found[name] = [
                [
                    timeless(json.loads(item)) if isinstance(item, bytes) else str(item)
                    for item in row.values()
                ]
                for row in await conn.fetch(query)
            ]
        sent: dict[str, list[str]] = {}
        for row in await conn.fetch("select topic, key, headers from outbox order by id"):
            ce_id = dict(unpack_headers(row["headers"]))["ce_id"].decode()
            sent.setdefault(row["key"].decode(), []).append(f"{row['topic']} {ce_id}")
    # A crash may write a dead letter twice: its id derives from its place, whoever reads knows.
    found["outbox"] = {key: list(dict.fromkeys(items)) for key, items in sorted(sent.items())}
    return found


@dataclass
class Case:
    """One database with its process, which may be run again and again."""

    dsn: str
    acked: Path
    children: Children
    at_ms: int = field(default_factory=lambda: int(time.time() * 1000))

    def run(self, spec: str = "") -> int:
        return self.children.run(
            dsn=self.dsn, acked=str(self.acked), failpoints=spec, at_ms=self.at_ms
        )

    async def state(self) -> dict[str, JsonValue]:
        rig = await open_rig(self.dsn)
        try:
            return await state(rig)
        finally:
            await rig.database.close()


async def begin(dsn: str) -> None:
    rig = await open_rig(dsn)
    await rig.wipe()
    await rig.publish(document())
    await rig.set_quota("acme", 100)
    for action in (START, OPERATION):
        await rig.tenants.set_rate("acme", action, 100, DAY_MS)
    await rig.database.close()


@pytest.fixture
async def case(prepared: str, children: Children, tmp_path: Path) -> Case:
    await begin(prepared)
    return Case(prepared, tmp_path / "acked", children)


@pytest.fixture(scope="module")
def undisturbed(
    prepared: str, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, JsonValue]:
    """The end of the scripts without a crash."""
    asyncio.run(begin(prepared))
    case = Case(prepared, tmp_path_factory.mktemp("undisturbed") / "acked", children)
    assert case.run() == 0
    return asyncio.run(case.state())


def test_the_scripts_end_as_they_should(undisturbed: dict[str, JsonValue]) -> None:
    sagas = undisturbed["saga"]
    assert isinstance(sagas, list)
    ends = {row[5]["key"]: row[1] for row in sagas}
    assert ends == {key: status.value for key, status in ENDS.items()}
    assert undisturbed["deferred"] == undisturbed["early"] == []
    assert undisturbed["quota"] == [["acme", "100", "0"]]
    assert undisturbed["rate"] == [["acme", "operation", "4"], ["acme", "start", "5"]]


def test_every_statement_has_a_failpoint() -> None:
    assert len(POINTS) >= 20


@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_every_hit_of_a_failpoint_it_ends_the_same(
    case: Case, undisturbed: dict[str, JsonValue], point: str
) -> None:
    # The first process dies at its first hit. Each later one gets past the hit at which its
    # predecessor died, and dies at the next: so there is a crash at every hit of the script.
    assert case.run(f"{point}=exit@1") == EXIT
    crashes = 1
    while (code := case.run(f"{point}=exit@2")) == EXIT:
        crashes += 1
        assert crashes < 100, "it never gets on"
    assert code == 0
    assert await case.state() == undisturbed


async def test_the_comparison_can_fail(case: Case, undisturbed: dict[str, JsonValue]) -> None:
    assert case.run("orchestrator.after-outbox=exit@5") == EXIT
    assert await case.state() != undisturbed
