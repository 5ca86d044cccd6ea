"""Local steps on real Postgres: one transaction for claim, journal, effect and answer."""

from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel

from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_messages import MessageError, Result
from sagabus_participant import (
    ExecutedLocally,
    Halted,
    LocalContext,
    LocalStep,
    Participant,
    Rejected,
    StepOptions,
    Succeeded,
    Transient,
    Undone,
)
from sagabus_participant.orders import pack_record
from sagabus_participant.step import Context
from sagabus_participant.work import Item, WorkBench
from sagabus_runtime import failpoints
from sagabus_runtime.errors import InjectedFault

E, C, K, R = Phase.EXECUTE, Phase.CANCEL, Phase.COMPENSATE, Phase.RESOLVE
S: TypeAlias = ResultStatus
Rig: TypeAlias = Any  # the class of conftest.py, which importlib mode cannot import


class Order(BaseModel):
    order: str


class Shelf(LocalStep[Order]):
    """Writes one row per effect; does what the order's key says."""

    def __init__(self) -> None:
        self.mood: dict[str, str] = {}
        self.calls: list[str] = []

    async def execute(self, ctx: LocalContext, order: Order) -> ExecutedLocally:
        self.calls.append(order.order)
        await self._apply(ctx, "done")
        match self.mood.get(order.order, "good"):
            case "reject":
                return Rejected("out_of_stock", "none left")
            case "halt":
                return Halted("ask_a_person")
            case "transient":
                raise Transient("counting")
            case "bug":
                raise KeyError("secret")
            case "sql":
                await ctx.conn.execute("select 1/0")
            case "swallowed":
                await self._swallow(ctx)
            case "nonsense":
                return Succeeded({"a": object()})
            case _:
                pass
        return Succeeded({"shelf": 7})

    async def compensate(self, ctx: LocalContext) -> Undone:
        assert ctx.output == {"shelf": 7}
        await self._apply(ctx, "undone")
        return Succeeded()

    @staticmethod
    async def _apply(ctx: Context, what: str) -> None:
        assert isinstance(ctx, LocalContext)
        await ctx.conn.execute("insert into applied values ($1, $2)", ctx.execute_key, what)

    @staticmethod
    async def _swallow(ctx: LocalContext) -> None:
        try:
            await ctx.conn.execute("select 1/0")
        except Exception:  # noqa: BLE001
            return


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def rig(rig_of: Rig, shelf: Shelf) -> Rig:
    participant = Participant("inventory")
    participant.add("reserve", Order, shelf, StepOptions())
    return await rig_of(participant, "reserve")


def only(results: list[Result]) -> Result:
    assert len(results) == 1, results
    return results[0]


async def test_a_success_is_applied_once_and_replayed(rig: Rig, shelf: Shelf) -> None:
    record = rig.command(E)
    first = only(await rig.send(record))
    assert (first.status, first.output and first.output.body) == (S.SUCCEEDED, b'{"shelf":7}')
    assert await rig.send(record, record) == []
    again = only(await rig.ask(E, attempt=2))
    assert (again.status, again.output, again.attempt) == (S.SUCCEEDED, first.output, 2)
    assert (shelf.calls, await rig.count("applied")) == (["ORD-1"], 1)
    late = only(await rig.ask(C))
    assert (late.terminal_status, late.output) == (TerminalStatus.SUCCEEDED, first.output)
    undone = only(await rig.ask(K))
    assert undone.status is S.SUCCEEDED
    assert only(await rig.ask(K, attempt=2)).status is S.SUCCEEDED
    assert await rig.count("applied") == 2


async def test_one_batch_of_many_fates(rig: Rig, shelf: Shelf) -> None:
    shelf.mood = {
        "b": "reject",
        "c": "halt",
        "d": "transient",
        "e": "bug",
        "f": "sql",
        "g": "swallowed",
        "h": "nonsense",
    }
    keys = "abcdefghi"
    results = await rig.send(*(rig.command(E, key=key) for key in keys))
    told = {r.business_key: (r.status, r.reason_code) for r in results}
    assert told == {
        "a": (S.SUCCEEDED, None),
        "b": (S.REJECTED, "out_of_stock"),
        "c": (S.HALTED, "ask_a_person"),
        "e": (S.HALTED, "handler_error"),
        "f": (S.HALTED, "handler_error"),
        "g": (S.HALTED, "handler_error"),
        "h": (S.HALTED, "output_invalid"),
        "i": (S.SUCCEEDED, None),
    }
    assert await rig.count("applied") == 2, "only a success leaves anything behind"
    assert await rig.count("participant_work") == 1, "the transient one waits in the work table"
    assert not any("secret" in (r.reason_detail or "") for r in results)


async def test_a_transient_error_is_tried_again_until_it_works(rig: Rig, shelf: Shelf) -> None:
    shelf.mood = {"ORD-1": "transient"}
    assert await rig.ask(E) == []
    async with rig.db.transaction() as conn:
        await conn.execute("update participant_work set due_at = now()")
    assert await rig.work() == []
    shelf.mood = {}
    async with rig.db.transaction() as conn:
        await conn.execute("update participant_work set due_at = now()")
    assert only(await rig.work()).status is S.SUCCEEDED
    assert (await rig.count("participant_work"), await rig.count("applied")) == (0, 1)


async def test_cancel_overtakes_a_stuck_command_and_fences_it(rig: Rig, shelf: Shelf) -> None:
    shelf.mood = {"ORD-1": "transient"}
    await rig.ask(E)
    assert only(await rig.ask(C)).status is S.CANCEL_CONFIRMED
    shelf.mood = {}
    async with rig.db.transaction() as conn:
        await conn.execute("update participant_work set due_at = now()")
    blocked = only(await rig.work())
    assert (blocked.status, blocked.reason_code) == (S.REJECTED, "fenced")
    assert await rig.count("applied") == 0


async def test_a_stuck_command_that_expires_is_never_started(rig: Rig, shelf: Shelf) -> None:
    shelf.mood = {"ORD-1": "transient"}
    await rig.send(rig.command(E, expires_in_ms=30_000))
    async with rig.db.transaction() as conn:
        await conn.execute("update participant_work set due_at = now()")
    (item,) = await rig.claim()
    expired = rig.command(E, key="ORD-1", expires_in_ms=-1)
    calls = len(shelf.calls)
    await WorkBench(rig.shell).work(Item(item.id, item.lease, pack_record(expired), item.tries))
    assert (await rig.answers(), len(shelf.calls)) == ([], calls)
    assert await rig.count("participant_work") == 0


async def test_negative_answers_fence_what_never_came(rig: Rig, shelf: Shelf) -> None:
    told = only(await rig.ask(R, target=E))
    assert (told.status, told.reason_code) == (S.REJECTED, "not_executed")
    late = only(await rig.ask(E))
    assert (late.status, late.reason_code) == (S.REJECTED, "fenced")
    assert shelf.calls == []
    nothing = only(await rig.ask(K))
    assert (nothing.status, nothing.reason_code) == (S.HALTED, "nothing_to_compensate")


async def test_halted_waits_for_another_recovery_operation(rig: Rig, shelf: Shelf) -> None:
    shelf.mood = {"ORD-1": "bug"}
    assert only(await rig.ask(E)).status is S.HALTED
    assert only(await rig.ask(E, attempt=2)).status is S.HALTED
    assert len(shelf.calls) == 1
    again = rig.command(E, 3, operation="op-1")
    assert only(await rig.send(again)).status is S.HALTED
    assert len(shelf.calls) == 2
    shelf.mood = {}
    assert only(await rig.send(rig.command(E, 4, operation="op-1"))).status is S.HALTED
    assert only(await rig.send(rig.command(E, 5, operation="op-2"))).status is S.SUCCEEDED


async def test_a_bad_payload_is_answered_before_anything_runs(rig: Rig, shelf: Shelf) -> None:
    wrong = only(await rig.send(rig.command(E, payload={"order": 5})))
    assert (wrong.status, wrong.reason_code) == (S.HALTED, "payload_contract_mismatch")
    assert "order" in (wrong.reason_detail or "")
    other = only(await rig.send(rig.command(E, key="b", schema="other.v1")))
    assert other.reason_code == "payload_contract_mismatch"
    assert shelf.calls == []


async def test_what_is_not_for_us_is_poison_and_claims_nothing(rig: Rig) -> None:
    record = rig.command(E)
    forged = replace(record, key=b"00000000-0000-5000-8000-000000000000")
    with pytest.raises(MessageError):
        await rig.send(record, forged)
    assert await rig.count("inbox") == 0
    assert await rig.count("participant_effect") == 0


@pytest.mark.parametrize("point", ["participant.before-commit", "participant.after-commit"])
async def test_a_crash_around_the_commit_leaves_one_effect_and_one_answer(
    rig: Rig, point: str
) -> None:
    record = rig.command(E)
    with failpoints.armed(f"{point}=error:boom@1"), pytest.raises(InjectedFault):
        await rig.send(record)
    await rig.send(record)
    assert [r.status for r in rig.heard] == [S.SUCCEEDED]
    assert await rig.count("applied") == 1
