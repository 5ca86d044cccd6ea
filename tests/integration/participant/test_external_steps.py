"""External steps on real Postgres: intent, call, receipt, and every crash in between."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import uuid4

import pytest
from pydantic import BaseModel

from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_messages import Record, Result
from sagabus_participant import (
    AlreadyTerminal,
    CallbackError,
    Cancelled,
    Compensated,
    Confirmed,
    Executed,
    ExternalContext,
    ExternalStep,
    Participant,
    Pending,
    Rejected,
    Resolved,
    StepOptions,
    Succeeded,
    Transient,
    Unknown,
    WorkBench,
)
from sagabus_participant.orders import pack_record
from sagabus_participant.work import Item
from sagabus_runtime import failpoints
from sagabus_runtime.errors import InjectedFault
from sagabus_testkit import eventually

E, C, K, R = Phase.EXECUTE, Phase.CANCEL, Phase.COMPENSATE, Phase.RESOLVE
S: TypeAlias = ResultStatus
LOCK_ONE = (
    "select from participant_effect where effect_id ="
    " (select effect_id from participant_effect limit 1) for update"
)
Rig: TypeAlias = Any  # the class of conftest.py, which importlib mode cannot import


class Order(BaseModel):
    order: str


@dataclass
class World:
    """An outside system that honours keys and can forbid one."""

    applied: dict[str, int] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    mood: str = "good"
    gate: asyncio.Event | None = None
    waiting: int = 0

    def apply(self, key: str) -> Executed:
        self.calls.append(key)
        if key in self.forbidden:
            return Rejected("forbidden")
        if self.mood == "lost-request":
            return Unknown("lost")
        self.applied[key] = self.applied.get(key, 0) or 1
        if self.mood == "lost-answer":
            return Unknown("lost")
        if self.mood == "bug":
            raise KeyError("after the effect")
        if self.mood == "transient":
            raise Transient("busy")
        return Succeeded({"id": 1})


class Charge(ExternalStep[Order]):
    def __init__(self, world: World) -> None:
        self.world = world

    async def execute(self, ctx: ExternalContext, order: Order) -> Executed:
        if self.world.gate is not None:
            self.world.waiting += 1
            await self.world.gate.wait()
        return self.world.apply(ctx.idempotency_key)

    async def compensate(self, ctx: ExternalContext) -> Compensated:
        assert ctx.execute_key in self.world.applied
        answer = self.world.apply(ctx.idempotency_key)
        assert not isinstance(answer, Rejected)
        return Succeeded() if isinstance(answer, Succeeded) else answer

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        key = ctx.idempotency_key
        if key in self.world.applied:
            return Succeeded({"id": 1} if ctx.target is E else None)
        if ctx.target is K:
            return Rejected("not_undone")
        self.world.forbidden.add(key)
        return Rejected("never_seen")


class Cancellable(Charge):
    async def cancel(self, ctx: ExternalContext) -> Cancelled:
        if self.world.mood == "dark":
            return Pending()
        key = ctx.idempotency_key
        if key in self.world.applied:
            return AlreadyTerminal(TerminalStatus.SUCCEEDED, {"id": 1})
        self.world.forbidden.add(key)
        return Confirmed()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def rig(rig_of: Rig, world: World) -> Rig:
    participant = Participant("payment")
    participant.add("charge", Order, Charge(world), StepOptions())
    return await rig_of(participant, "charge")


@pytest.fixture
async def safe(rig_of: Rig, world: World) -> Rig:
    participant = Participant("payment")
    participant.add("charge", Order, Charge(world), StepOptions(idempotent=True))
    return await rig_of(participant, "charge")


@pytest.fixture
async def stoppable(rig_of: Rig, world: World) -> Rig:
    participant = Participant("payment")
    participant.add("charge", Order, Cancellable(world), StepOptions())
    return await rig_of(participant, "charge")


def only(results: list[Result]) -> Result:
    assert len(results) == 1, results
    return results[0]


async def run(rig: Rig, *records: Record) -> Result:
    await rig.send(*records)
    await rig.work()
    last: Result = rig.heard[-1]
    return last


async def due_now(rig: Rig) -> None:
    async with rig.db.transaction() as conn:
        await conn.execute("update participant_work set due_at = now(), leased_until = '-infinity'")


async def test_stored_acknowledged_then_called_once(rig: Rig, world: World) -> None:
    assert await rig.ask(E) == []
    assert world.calls == []
    assert only(await rig.work()).status is S.SUCCEEDED
    assert only(await rig.ask(E, attempt=2)).status is S.SUCCEEDED
    assert only(await rig.ask(R, target=E)).status is S.SUCCEEDED
    assert len(world.calls) == 1
    assert await rig.count("participant_work") == 0


async def test_undo_and_question_about_the_undo(rig: Rig, world: World) -> None:
    await run(rig, rig.command(E))
    not_yet = only(await rig.ask(R, target=K))
    assert (not_yet.status, not_yet.reason_code) == (S.REJECTED, "not_compensated")
    world.mood = "lost-answer"
    assert (await run(rig, rig.command(K))).status is S.UNKNOWN
    world.mood = "good"
    assert (await run(rig, rig.command(R, 2, target=K))).status is S.SUCCEEDED
    assert only(await rig.ask(K, attempt=2)).status is S.SUCCEEDED
    assert len(world.calls) == 2


async def test_a_lost_answer_is_unknown_and_found_out(rig: Rig, world: World) -> None:
    world.mood = "lost-answer"
    assert (await run(rig, rig.command(E))).status is S.UNKNOWN
    assert (await run(rig, rig.command(R, target=E))).status is S.SUCCEEDED
    assert len(world.applied) == 1


async def test_a_lost_request_is_forbidden_before_it_is_denied(rig: Rig, world: World) -> None:
    world.mood = "lost-request"
    assert (await run(rig, rig.command(E))).status is S.UNKNOWN
    told = await run(rig, rig.command(R, target=E))
    assert (told.status, told.reason_code) == (S.REJECTED, "never_seen")
    assert len(world.forbidden) == 1
    world.mood = "good"
    assert (await run(rig, rig.command(E, 2))).status is S.REJECTED
    assert world.applied == {}


@pytest.mark.parametrize("mood", ["bug", "transient"])
async def test_trap_21_a_failure_after_the_intent_is_unknown(
    rig: Rig, world: World, mood: str
) -> None:
    world.mood = mood
    assert (await run(rig, rig.command(E))).status is S.UNKNOWN


async def test_an_idempotent_step_is_tried_again_with_a_durable_time(
    safe: Rig, world: World
) -> None:
    world.mood = "transient"
    assert await safe.ask(E) == []
    assert await safe.work() == []
    assert await safe.count("participant_work") == 1
    world.mood = "good"
    await due_now(safe)
    assert only(await safe.work()).status is S.SUCCEEDED
    assert len(set(world.calls)) == 1


@pytest.mark.parametrize(
    "point",
    [
        "participant.before-intent",
        "participant.after-intent",
        "participant.after-call",
        "participant.before-receipt",
        "participant.after-receipt",
    ],
)
@pytest.mark.parametrize("idempotent", [False, True])
async def test_killed_between_any_two_statements(
    rig: Rig, safe: Rig, world: World, point: str, idempotent: bool
) -> None:
    rig = safe if idempotent else rig
    await rig.ask(E)
    (item,) = await rig.claim()
    with failpoints.armed(f"{point}=error:boom@1"), pytest.raises(InjectedFault):
        await WorkBench(rig.shell).work(item)
    await due_now(rig)
    await rig.work()
    answer = only(rig.heard)
    lost = not idempotent and point == "participant.after-intent"
    assert answer.status is (S.REJECTED if lost else S.SUCCEEDED)
    assert sum(world.applied.values()) == (0 if lost else 1)
    assert await rig.count("participant_work") == 0
    assert only(await rig.ask(E, attempt=2)).status is answer.status


async def test_after_expiry_a_call_in_doubt_is_asked_about(safe: Rig, world: World) -> None:
    await safe.send(safe.command(E))
    (item,) = await safe.claim()
    with failpoints.armed("participant.after-intent=error:boom@1"), pytest.raises(InjectedFault):
        await WorkBench(safe.shell).work(item)
    expired = pack_record(safe.command(E, expires_in_ms=-1))
    await WorkBench(safe.shell).work(Item(item.id, item.lease, expired, 2))
    assert only(await safe.answers()).status is S.REJECTED
    assert (world.calls, len(world.forbidden)) == ([], 1)


async def test_questions_overtake_a_slow_call(rig: Rig, world: World) -> None:
    await rig.ask(E)
    (slow,) = await rig.claim()
    with failpoints.armed("participant.after-call=error:boom@1"), pytest.raises(InjectedFault):
        await WorkBench(rig.shell).work(slow)
    assert await rig.ask(R, target=E) == []
    assert only(await rig.work()).status is S.SUCCEEDED
    assert await rig.count("participant_work") == 1, "the slow one is still leased"


async def test_cancel_before_the_call_needs_no_handler(stoppable: Rig, world: World) -> None:
    await stoppable.ask(E)
    assert only(await stoppable.ask(C)).status is S.CANCEL_CONFIRMED
    blocked = only(await stoppable.work())
    assert (blocked.status, blocked.reason_code) == (S.REJECTED, "fenced")
    assert world.calls == []


async def test_cancel_in_doubt_asks_the_outside(stoppable: Rig, world: World) -> None:
    world.mood = "lost-request"
    assert (await run(stoppable, stoppable.command(E))).status is S.UNKNOWN
    world.mood = "dark"
    assert (await run(stoppable, stoppable.command(C))).status is S.RESOLUTION_PENDING
    assert await stoppable.ask(C) == [], "a repeated record is absorbed"
    world.mood = "good"
    assert (await run(stoppable, stoppable.command(C, 2))).status is S.CANCEL_CONFIRMED
    assert (await run(stoppable, stoppable.command(E, 2))).status is S.REJECTED
    assert world.applied == {}


async def test_a_callback_is_the_second_answer_to_the_same_attempt(rig: Rig, world: World) -> None:
    world.mood = "lost-answer"
    first = await run(rig, rig.command(E))
    key = world.calls[0]
    async with rig.db.transaction() as conn:
        assert await rig.callbacks().report(conn, key, Succeeded({"id": 1}))
    second = only(await rig.answers())
    assert (first.status, second.status) == (S.UNKNOWN, S.SUCCEEDED)
    assert (second.command_id, second.attempt) == (first.command_id, first.attempt)
    assert second.event_id != first.event_id
    async with rig.db.transaction() as conn:
        assert not await rig.callbacks().report(conn, key, Succeeded({"id": 1}))
        with pytest.raises(CallbackError):
            await rig.callbacks().report(conn, "00000000-0000-5000-8000-000000000000", Succeeded())
    assert only(await rig.ask(R, target=E)).status is S.SUCCEEDED


async def test_a_callback_before_the_receipt_wins(rig: Rig, world: World) -> None:
    world.mood = "lost-answer"
    await rig.ask(E)
    (item,) = await rig.claim()
    reported: list[bool] = []

    async def call_back() -> None:
        async with rig.db.transaction() as conn:
            reported.append(
                await rig.callbacks().report(conn, world.calls[0], Succeeded({"id": 1}))
            )

    bench = WorkBench(rig.shell)
    receive = bench._receive

    async def late_receive(*args: object) -> None:
        await call_back()
        await receive(*args)  # type: ignore[arg-type]  # passed on unchanged

    bench._receive = late_receive  # type: ignore[method-assign,assignment]  # the moment before the receipt
    await bench.work(item)
    told = await rig.answers()
    assert reported == [True]
    assert {r.status for r in told} == {S.SUCCEEDED}
    assert len({r.event_id for r in told}) == 1


async def begun_together(rig: Rig, keys: Sequence[str]) -> list[Item]:
    await rig.send(*(rig.command(E, key=key) for key in keys))
    items: list[Item] = await rig.claim()
    return items


async def test_commands_that_come_together_share_their_transactions(rig: Rig, world: World) -> None:
    items = await begun_together(rig, [f"ORD-{n}" for n in range(20)])
    bench, commits = WorkBench(rig.shell), []
    with failpoints.on("store.before-commit", lambda: commits.append(len(world.calls))):
        await asyncio.gather(*(bench.work(item) for item in items))
    told = await rig.answers()
    assert [r.status for r in told] == [S.SUCCEEDED] * 20
    assert (commits[0], len(world.calls)) == (0, 20), "every intent is durable before any call"
    assert len(commits) <= 4
    assert await rig.count("participant_work") == 0


@pytest.mark.parametrize("point", ["before-intent", "after-call", "before-receipt"])
async def test_several_killed_between_any_two_statements(
    rig: Rig, world: World, point: str
) -> None:
    bench, items = WorkBench(rig.shell), await begun_together(rig, ["a", "b", "c"])
    with failpoints.armed(f"participant.{point}=error:boom"):
        ended = await asyncio.gather(*(bench.work(i) for i in items), return_exceptions=True)
    assert [type(error) for error in ended] == [InjectedFault] * 3
    await due_now(rig)
    await rig.work()
    assert [r.status for r in rig.heard] == [S.SUCCEEDED] * 3
    assert list(world.applied.values()) == [1, 1, 1]
    assert await rig.count("participant_work") == 0


async def test_intents_whose_commit_was_not_heard_of_are_in_no_doubt(
    rig: Rig, world: World
) -> None:
    bench, items = WorkBench(rig.shell), await begun_together(rig, ["a", "b", "c"])
    with failpoints.armed("store.after-commit=error:08006@1"):
        await asyncio.gather(*(bench.work(item) for item in items))
    assert [r.status for r in await rig.answers()] == [S.SUCCEEDED] * 3
    assert (len(world.calls), world.forbidden) == (3, set())


async def test_nobody_waits_for_the_receipt_of_a_neighbour(rig: Rig, world: World) -> None:
    """Somebody holds the lock of one activation in a long transaction of their own."""
    bench, items = WorkBench(rig.shell), await begun_together(rig, ["a", "b", "c"])
    world.gate = asyncio.Event()
    working = [asyncio.create_task(bench.work(item)) for item in items]
    await eventually(lambda: world.waiting == 3)
    async with rig.db.transaction() as conn:
        await conn.execute(LOCK_ONE)
        world.gate.set()
        await eventually(lambda: sum(task.done() for task in working) == 2)
        assert [r.status for r in await rig.answers()] == [S.SUCCEEDED] * 2
    await asyncio.gather(*working)
    assert [r.status for r in await rig.answers()] == [S.SUCCEEDED]


async def test_a_lost_lease_among_several_is_left_to_its_new_owner(rig: Rig, world: World) -> None:
    bench, items = WorkBench(rig.shell), await begun_together(rig, ["a", "b"])
    lost = Item(items[0].id, str(uuid4()), items[0].record, 1)
    await asyncio.gather(bench.work(lost), bench.work(items[1]))
    assert [r.status for r in await rig.answers()] == [S.SUCCEEDED]
    assert (len(world.calls), await rig.count("participant_work")) == (1, 1)
