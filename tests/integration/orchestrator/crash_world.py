"""Scripted sagas in a world that can be killed anywhere: what a crash test compares, and its child.

Everything that happens follows from the outbox: a participant answers each command as the script
says, an operator acts where the script says. So a new process that reads the outbox knows the
whole input again, and goes on at the first input that was not acknowledged.

`python -m tests.integration.orchestrator.crash_world` serves requests, one JSON line each, by
forking a child per request: `{"dsn", "acked": path, "failpoints", "at_ms"}` to its exit code.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sagabus_core.canonical import JsonValue
from sagabus_core.engine import ManagementEvent, Retry
from sagabus_core.vocabulary import Phase, ResultStatus, SagaStatus
from sagabus_messages import Command, Record, decode, unpack_headers
from sagabus_orchestrator.holds import SQL as HOLDS
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_runtime import failpoints

from .support import TOPICS, Rig, open_rig, operation, order, pause, resume

R = ResultStatus
HOLD = "00000000-0000-4000-8000-000000000001"
HOUR_MS = 3_600_000

KEYS = ("success", "rejection", "unknown", "paused", "halted")
"""One saga per script, all in one database, so that batches mix them."""

ENDS = {
    "success": SagaStatus.COMPLETED,
    "rejection": SagaStatus.COMPENSATED,
    "unknown": SagaStatus.COMPLETED,
    "paused": SagaStatus.COMPLETED,
    "halted": SagaStatus.COMPENSATED,
}

ANSWERS: dict[tuple[str, str, Phase, int], tuple[ResultStatus, ...]] = {
    ("rejection", "ship", Phase.EXECUTE, 1): (R.REJECTED,),
    ("unknown", "charge", Phase.EXECUTE, 1): (R.UNKNOWN,),
    ("unknown", "charge", Phase.RESOLVE, 1): (R.SUCCEEDED, R.SUCCEEDED),
    ("paused", "charge", Phase.EXECUTE, 1): (R.SUCCEEDED, R.UNKNOWN),
    ("halted", "ship", Phase.EXECUTE, 1): (R.REJECTED,),
    ("halted", "charge", Phase.COMPENSATE, 1): (R.HALTED,),
}
"""How participants answer; whatever is not listed succeeds at once."""


@dataclass(frozen=True)
class Act:
    """What an operator does."""

    key: str
    event: ManagementEvent


@dataclass(frozen=True)
class Switch:
    """An operator holds the shipping participant, or releases it; then each saga is resumed."""

    is_set: bool


Input: TypeAlias = Record | Act | Switch


def slow(value: JsonValue) -> JsonValue:
    """Return a document whose timeouts cannot pass during a test."""
    if isinstance(value, dict):
        return {k: HOUR_MS if k == "timeout_ms" else slow(v) for k, v in value.items()}
    return [slow(item) for item in value] if isinstance(value, list) else value


def document() -> dict[str, JsonValue]:
    found = slow(order())
    assert isinstance(found, dict)
    return found


@dataclass
class World:
    """The rest of the world around one orchestrator process."""

    rig: Rig
    acked: Path
    at_ms: int

    async def inputs(self) -> list[Input]:
        """Return everything that was ever sent to the orchestrator, always in the same order."""
        rig = self.rig
        found: list[Input] = [
            rig.start_record(key, start_id=f"start-{key}", at_ms=self.at_ms) for key in KEYS
        ]
        found.append(rig.start_record("success", start_id="start-again", at_ms=self.at_ms))
        # The database was restored: one answer is there before its saga is.
        early = rig.foretold("rejection", "reserve")
        found.insert(0, rig.result_record(early, at_ms=self.at_ms))
        async with rig.database.connection() as conn:
            rows = await conn.fetch(
                "select * from outbox where topic like 'sagabus.command.%' order by id"
            )
        for row in rows:
            headers = unpack_headers(row["headers"])
            read = Record(row["topic"], 0, 0, row["key"], row["value"], headers, 0)
            command = decode(read, TOPICS).body
            assert isinstance(command, Command)
            found += self.replies(command, int(row["created_at"].timestamp() * 1000))
        return found

    def replies(self, command: Command, at_ms: int) -> list[Input]:
        key, rig = command.business_key, self.rig
        place = (key, command.step, command.phase, command.attempt)
        found: list[Input] = [
            rig.result_record(command, status, ordinal=number, at_ms=at_ms)
            for number, status in enumerate(ANSWERS.get(place, (R.SUCCEEDED,)), 1)
        ]
        if place == ("success", "charge", Phase.EXECUTE, 1):  # a forger tries first
            found.insert(0, rig.result_record(command, participant="shipping", at_ms=at_ms))
        if place == ("paused", "charge", Phase.EXECUTE, 1):
            found = [Act(key, pause("op-pause")), *found, Act(key, resume("op-resume"))]
        if place == ("rejection", "charge", Phase.EXECUTE, 1):
            resumed = Act(key, resume("op-release"))
            found = [Switch(is_set=True), *found, Switch(is_set=False), resumed]
        if place == ("halted", "charge", Phase.COMPENSATE, 1):
            found.append(Act(key, Retry(operation("op-retry"))))
        return found

    async def play(self) -> None:
        """Deliver what is not acknowledged, batch by batch, until nothing new comes."""
        while todo := (await self.inputs())[self.position :]:
            batch: list[Record] = []
            for item in todo if self.position else todo[:1]:
                if not isinstance(item, Record):
                    break
                batch.append(item)
            if batch:
                await self.rig.handler.process(batch)
                self.acknowledge(len(batch))
            else:
                await self.act(todo[0])
                self.acknowledge(1)

    async def act(self, item: Input) -> None:
        if isinstance(item, Switch):
            await self.switch(is_set=item.is_set)
            return
        assert isinstance(item, Act)
        await self.rig.operations.perform("acme", self.rig.saga(item.key), item.event)

    async def switch(self, *, is_set: bool) -> None:
        place = ("participant", "shipping", "", "ada", "because")
        if is_set:
            await self.rig.run(HOLDS["set_hold"], HOLD, *place)
            return
        await self.rig.run(HOLDS["release_hold"], *place)
        await self.rig.run("delete from held_saga")

    @property
    def position(self) -> int:
        return int(self.acked.read_text()) if self.acked.exists() else 0

    def acknowledge(self, count: int) -> None:
        position = self.position + count
        self.acked.with_suffix(".new").write_text(str(position))
        self.acked.with_suffix(".new").replace(self.acked)


async def live(dsn: str, acked: str, spec: str, at_ms: int) -> None:
    """Be one process: it ends when everything is done, or at a failpoint."""
    rig = await open_rig(dsn)
    rig.handler.mode = RecoveryMode.SETTLE
    failpoints.arm(spec)
    await World(rig, Path(acked), at_ms).play()
    failpoints.disarm()
    await rig.database.close()


def serve(lines: Iterable[str]) -> None:
    for line in lines:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            asyncio.run(
                live(request["dsn"], request["acked"], request["failpoints"], request["at_ms"])
            )
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.stdin)
