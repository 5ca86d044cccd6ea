"""`execute_many`: one call for several orders, and never another outcome than `execute` has."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel

from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_participant import (
    CommandBatches,
    ExecutedLocally,
    LocalContext,
    LocalStep,
    Participant,
    Rejected,
    StepOptions,
    Succeeded,
)

E, C = Phase.EXECUTE, Phase.CANCEL
S: TypeAlias = ResultStatus
Rig: TypeAlias = Any  # the class of conftest.py, which importlib mode cannot import
INSERT = "insert into applied values ($1, $2)"
INSERT_ALL = "insert into applied select * from unnest($1::uuid[], $2::text[])"


class Order(BaseModel):
    order: str


class Shelf(LocalStep[Order]):
    """Refuses the orders that it is told to; `trouble` is what a call for many does wrong."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.trouble = ""
        self.single: list[str] = []
        self.many: list[list[str]] = []

    def answer(self, order: Order) -> ExecutedLocally:
        return Rejected("out_of_stock") if order.order in self.refused else Succeeded()

    async def execute(self, ctx: LocalContext, order: Order) -> ExecutedLocally:
        self.single.append(order.order)
        await ctx.conn.execute(INSERT, ctx.execute_key, order.order)
        return self.answer(order)

    async def execute_many(
        self, batch: Sequence[tuple[LocalContext, Order]]
    ) -> Sequence[ExecutedLocally]:
        self.many.append([order.order for _, order in batch])
        conn = batch[0][0].conn
        keys = [ctx.execute_key for ctx, _ in batch]
        await conn.execute(INSERT_ALL, keys, [order.order for _, order in batch])
        if self.trouble == "raises":
            raise RuntimeError("bug")
        if self.trouble == "breaks the transaction":
            await conn.execute("select 1 / 0")
        answers = [self.answer(order) for _, order in batch]
        return answers[1:] if self.trouble == "forgets one" else answers


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def rig(rig_of: Rig, shelf: Shelf) -> Rig:
    participant = Participant("inventory")
    participant.add("reserve", Order, shelf, StepOptions())
    return await rig_of(participant, "reserve")


async def fates(rig: Rig, keys: list[str]) -> dict[str, ResultStatus]:
    await CommandBatches(rig.shell).process([rig.command(E, key=key) for key in keys])
    return {result.business_key: result.status for result in await rig.answers()}


async def test_orders_of_a_transaction_are_one_call(rig: Rig, shelf: Shelf) -> None:
    keys = [f"o{n}" for n in range(40)]
    assert await fates(rig, keys) == dict.fromkeys(keys, S.SUCCEEDED)
    assert (shelf.many, shelf.single) == ([keys], [])
    assert await rig.count("applied") == 40


async def test_a_refusal_is_found_by_calling_for_each(rig: Rig, shelf: Shelf) -> None:
    keys = [f"o{n}" for n in range(40)]
    shelf.refused = {"o7"}
    told = await fates(rig, keys)
    assert told == {key: S.REJECTED if key == "o7" else S.SUCCEEDED for key in keys}
    assert (len(shelf.many), shelf.single) == (1, keys)
    assert await rig.count("applied") == 39


@pytest.mark.parametrize("trouble", ["raises", "breaks the transaction", "forgets one"])
async def test_what_goes_wrong_with_many_goes_right_with_each(
    rig: Rig, shelf: Shelf, trouble: str
) -> None:
    shelf.trouble = trouble
    keys = [f"o{n}" for n in range(10)]
    assert await fates(rig, keys) == dict.fromkeys(keys, S.SUCCEEDED)
    assert (shelf.many, shelf.single) == ([keys], keys)
    assert await rig.count("applied") == 10


async def test_one_order_repeats_and_questions_keep_to_their_rules(rig: Rig, shelf: Shelf) -> None:
    first = rig.command(E, key="a")
    assert [r.status for r in await rig.send(first)] == [S.SUCCEEDED]
    assert (shelf.many, shelf.single) == ([], ["a"])
    told = await rig.send(
        first, rig.command(C, key="c"), rig.command(E, key="b"), rig.command(E, key="c"),
        rig.command(E, key="d"),
    )  # fmt: skip
    heard = {(r.business_key, r.phase): r.status for r in told}
    assert heard == {
        ("b", E): S.SUCCEEDED, ("d", E): S.SUCCEEDED,
        ("c", C): S.CANCEL_CONFIRMED, ("c", E): S.REJECTED,
    }  # fmt: skip
    assert shelf.many == [["b", "d"]]
    assert await rig.count("applied") == 3
