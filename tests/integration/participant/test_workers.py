"""The worker loop: leases, what overtakes a slow call, and an outage in the middle of one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel

from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_participant import (
    Executed,
    ExternalContext,
    ExternalStep,
    Participant,
    Resolved,
    StepOptions,
    Succeeded,
    WorkerOptions,
    Workers,
)
from sagabus_runtime.health import Pulse
from sagabus_testkit import LocalStack, eventually

E, R = Phase.EXECUTE, Phase.RESOLVE
S: TypeAlias = ResultStatus
Rig: TypeAlias = Any  # the class of conftest.py, which importlib mode cannot import


class Order(BaseModel):
    order: str


class Slow(ExternalStep[Order]):
    """Calls that last until the test lets them go."""

    def __init__(self) -> None:
        self.called = 0
        self.go = asyncio.Event()

    async def execute(self, ctx: ExternalContext, order: Order) -> Executed:
        self.called += 1
        await self.go.wait()
        return Succeeded()

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        return Succeeded()


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
async def rig(rig_of: Callable[..., Any], slow: Slow) -> AsyncIterator[Rig]:
    participant = Participant("payment")
    participant.add("charge", Order, slow, StepOptions(timeout_ms=60_000))
    rig = await rig_of(participant, "charge")
    stop = asyncio.Event()
    options = WorkerOptions(concurrency=2, lease_ms=1_500, poll_ms=50)
    task = asyncio.create_task(Workers(rig.shell, options).run(Pulse("work", 60_000, stop)))
    yield rig
    slow.go.set()
    stop.set()
    await task


async def test_a_slow_call_keeps_its_lease_and_is_overtaken(rig: Rig, slow: Slow) -> None:
    await rig.send(rig.command(E))
    await eventually(lambda: slow.called == 1)
    await rig.send(rig.command(R, target=E))
    await eventually(rig.answers, within=20, what="RESOLVE is answered beside the slow call")
    assert [r.status for r in rig.heard] == [S.SUCCEEDED]
    async with rig.db.connection() as conn:
        first = await conn.fetchval("select leased_until from participant_work")

        async def renewed() -> bool | None:
            now = await conn.fetchval("select leased_until from participant_work")
            return now > first or None

        assert await eventually(renewed, within=20, what="the lease is renewed")
    slow.go.set()

    async def finished() -> bool | None:
        return await rig.count("participant_work") == 0 or None

    assert await eventually(finished, within=20)
    assert slow.called == 1


async def test_postgres_goes_away_during_a_call(rig: Rig, slow: Slow, stack: LocalStack) -> None:
    await rig.send(rig.command(E))
    await eventually(lambda: slow.called == 1)
    await asyncio.to_thread(stack.postgres.stop, "immediate")
    slow.go.set()
    await asyncio.to_thread(stack.postgres.start)

    async def answered() -> bool | None:
        await rig.answers()
        return bool(rig.heard) or None

    assert await eventually(answered, within=40)
    assert [r.status for r in rig.heard] == [S.SUCCEEDED]
    assert slow.called == 1
