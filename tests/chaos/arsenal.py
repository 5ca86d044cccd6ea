"""How each kind of fault is done to a running system; all of them end by themselves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from sagabus_messages import OutboxRow, unpack_headers
from sagabus_testkit import Kafka, LocalStack, Postgres
from sagabus_testkit.faults import (
    CommitFate,
    FaultyNetwork,
    Line,
    hold,
    patiently,
    produce_again,
    read_records,
    rebalance_storm,
)
from sagabus_testkit.orders import consumer_groups
from sagabus_testkit.orders.reconcile import rows_of
from sagabus_testkit.proxy import Flow
from sagabus_testkit.system import PARTICIPANTS, System

from .schedule import Fault

__all__ = ["Arsenal"]

T = TypeVar("T")
COPIES: Final = 200
OVERTAKEN: Final = 300
LATENCY_S: Final = (0.02, 0.15)
COMMITS: Final = (5, 30)
_CUT_EVERY_S: Final = 0.7
_FLOWS: Final[dict[str, Flow]] = {
    "stall-to-server": "to_server",
    "stall-to-client": "to_client",
}
_FATES: Final = {"commit-lost": CommitFate.LOST, "commit-done": CommitFate.DONE}


@dataclass(slots=True)
class Arsenal:
    """The victims. `deliberately_down` names processes that nobody else may start now."""

    stack: LocalStack
    network: FaultyNetwork
    system: System
    deliberately_down: set[str] = field(default_factory=set)
    # On a busy machine a server comes back later than the schedule thinks: one fault at a time.
    _turns: Mapping[str, asyncio.Lock] = field(
        default_factory=lambda: {name: asyncio.Lock() for name in ("kafka", "postgres")}
    )

    async def inflict(self, fault: Fault) -> str:
        """Do it, wait until it is over, and say what it came to."""
        chance = random.Random(fault.seed)
        match fault.kind, fault.target:
            case "kill", name:
                return await self._kill(self.system.replicas(name), fault.lasts_s)
            case "freeze", "kafka":
                kafka = self.stack.kafka
                async with self._turns["kafka"]:
                    return await _while(kafka.pause, kafka.resume, fault.lasts_s)
            case "freeze", name:
                victim = chance.choice(self.system.replicas(name))
                await self._freeze([victim], hold(fault.lasts_s))
                return victim
            case "crash", server:
                async with self._turns[server]:
                    broken = self._server(server)
                    return await _while(broken.kill, broken.start, fault.lasts_s)
            case "restart", server:
                async with self._turns[server]:
                    broken = self._server(server)
                    return await _while(broken.stop, broken.start, fault.lasts_s)
            case (("repeat" | "shuffle"), topic):
                return await self._repeat(topic, chance, in_order=fault.kind == "repeat")
            case "overtake", whom:
                relays = self.system.replicas("relay")
                return await self._freeze(relays, self._overtake(whom, fault.lasts_s, chance))
            case "rebalance", _:
                groups = consumer_groups(self.system)
                joined = await rebalance_storm(
                    self.system.connection, groups, seconds=fault.lasts_s
                )
                return f"{joined} members came and went"
            case _:
                return await self._hurt_line(fault, chance)

    async def _hurt_line(self, fault: Fault, chance: random.Random) -> str:
        line: Line = self.network.kafka if fault.target == "kafka" else self.network.postgres
        if fault.kind == "cut":
            return await _cut(line, fault.lasts_s)
        if fault.kind == "slow":
            latency_s = chance.uniform(*LATENCY_S)
            said = f"{latency_s * 1000:.0f} ms each way"
            return await _while(lambda: line.delay(latency_s), line.restore, fault.lasts_s, said)
        if flow := _FLOWS.get(fault.kind):
            return await _while(lambda: line.stall(flow), line.restore, fault.lasts_s)
        return await self._cut_commits(_FATES[fault.kind], chance.randint(*COMMITS), fault.lasts_s)

    async def _kill(self, names: Sequence[str], away_s: float) -> str:
        self.deliberately_down.update(names)
        try:
            for name in names:
                await asyncio.to_thread(self.system.kill, name)
            await hold(away_s)
            for name in names:
                await asyncio.to_thread(self.system.spawn, name)
        finally:
            self.deliberately_down.difference_update(names)
        return f"{len(names)} processes" if len(names) > 1 else ""

    async def _freeze(self, names: Sequence[str], meanwhile: Awaitable[T]) -> T:
        for name in names:
            await asyncio.to_thread(self.system.pause, name)
        try:
            return await meanwhile
        finally:
            for name in names:
                await asyncio.to_thread(self.system.resume, name)

    async def _cut_commits(self, fate: CommitFate, times: int, lasts_s: float) -> str:
        before = self.network.postgres.commits_cut
        await asyncio.to_thread(self.network.postgres.cut_commits, fate, times)
        await hold(lasts_s)
        await asyncio.to_thread(self.network.postgres.cut_commits, fate, 0)
        return f"{self.network.postgres.commits_cut - before} commits"

    async def _repeat(self, target: str, chance: random.Random, *, in_order: bool) -> str:
        """Produce the tail of a topic again, or something older in any order."""
        connection, topic = self.system.connection, self._topic(target, chance)
        depth = 0.0 if in_order else chance.random()
        rows = await read_records(connection, topic, COPIES, depth)
        copied = await produce_again(connection, rows, None if in_order else chance)
        return f"{copied} of {topic}"

    async def _overtake(self, whom: str, lasts_s: float, chance: random.Random) -> str:
        """Let records that wait for the relay arrive before it sends them, in any order."""
        await hold(lasts_s)
        owners = ["orchestrator"] if whom == "orchestrator" else [*PARTICIPANTS, "timer"]
        rows = [row for owner in owners for row in await patiently(partial(self._unsent, owner))]
        early = await produce_again(self.system.connection, rows, chance)
        return f"{early} records before their turn"

    async def _unsent(self, owner: str) -> list[OutboxRow]:
        rows = await rows_of(self.system, owner, "unsent_records", OVERTAKEN)
        return [
            OutboxRow(row["topic"], row["key"], unpack_headers(row["headers"]), row["value"])
            for row in rows
        ]

    def _server(self, name: str) -> Kafka | Postgres:
        return self.stack.kafka if name == "kafka" else self.stack.postgres

    def _topic(self, target: str, chance: random.Random) -> str:
        topics, participant = self.system.topics, chance.choice(PARTICIPANTS)
        return {
            "start": topics.start,
            "command": topics.command(participant),
            "result": topics.result(participant),
            "wakeup": topics.wakeup,
            "wakeup-request": topics.wakeup_request,
        }[target]


async def _while(
    begin: Callable[[], object], end: Callable[[], object], lasts_s: float, said: str = ""
) -> str:
    await asyncio.to_thread(begin)
    try:
        await hold(lasts_s)
    finally:
        await asyncio.to_thread(end)
    return said


async def _cut(line: Line, lasts_s: float) -> str:
    cuts = max(1, int(lasts_s / _CUT_EVERY_S))
    lost = 0
    for _ in range(cuts):
        lost += line.connections
        await asyncio.to_thread(line.cut)
        await hold(_CUT_EVERY_S)
    return f"{lost} connections lost in {cuts} cuts"
