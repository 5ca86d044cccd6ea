"""`execute_many`: one call for several orders, and never another outcome than `execute` has.

Where nothing else is said the same holds for a service and for the kit in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pytest
from pydantic import BaseModel

from sagabus_core.testing import compensatable, document
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
from sagabus_testkit.memory import KitMaker, SagaKit

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
        if self.trouble == "takes too long":
            raise TimeoutError  # as the SDK does after the step's time-out
        if self.trouble == "breaks the transaction":
            await conn.execute("select 1 / 0")
        answers = [self.answer(order) for _, order in batch]
        return answers[1:] if self.trouble == "forgets one" else answers

    async def compensate(self, ctx: LocalContext) -> Succeeded:
        return Succeeded()


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


class Line(Protocol):
    """Commands that come at once, on real tables or in memory."""

    async def fates(self, keys: list[str]) -> dict[str, str]:
        """Return what became of each command."""

    async def applied(self) -> int:
        """Return how many effects there are."""


@dataclass
class OnPostgres:
    rig: Rig

    async def fates(self, keys: list[str]) -> dict[str, str]:
        records = [self.rig.command(E, key=key) for key in keys]
        await CommandBatches(self.rig.shell).process(records)
        return {r.business_key: r.status.value for r in await self.rig.answers()}

    async def applied(self) -> int:
        return int(await self.rig.count("applied"))


@dataclass
class Rows:
    """What stands for a connection in memory: the two statements of the handler."""

    rows: list[tuple[str, str]] = field(default_factory=list)

    async def execute(self, query: str, keys: Any, names: Any) -> None:
        self.rows += [(keys, names)] if query == INSERT else list(zip(keys, names, strict=True))


@dataclass
class InMemory:
    kit: SagaKit
    conn: Rows

    async def fates(self, keys: list[str]) -> dict[str, str]:
        sagas = [self.kit.start({"order": key}, key=key) for key in keys]
        ended = [await self.kit.settle(saga) for saga in sagas]
        return {each.key: each.snapshot.activations["reserve"].state.value for each in ended}

    async def applied(self) -> int:
        return len(self.conn.rows)


@pytest.fixture
def inventory(shelf: Shelf) -> Participant:
    made = Participant("inventory")
    made.add("reserve", Order, shelf, StepOptions())
    return made


@pytest.fixture
async def rig(rig_of: Rig, inventory: Participant) -> Rig:
    return await rig_of(inventory, "reserve")


@pytest.fixture
def kit(saga_kit: KitMaker, inventory: Participant) -> InMemory:
    payload = {"content_type": "application/json", "schema_id": "inventory.reserve.v1"}
    workflow = document(
        {"reserve": compensatable(participant="inventory", payload=payload)},
        {"step": "reserve", "input": {"order": "order"}},
        input={**payload, "schema_id": "order.v1", "set": {"order": "/order"}},
        variables={"order": "string"},
    )
    rows = Rows()
    return InMemory(saga_kit(workflow, inventory, conn=rows), rows)


@pytest.fixture(params=["in memory", "on Postgres"])
def line(request: pytest.FixtureRequest) -> Line:
    """Return both, one after the other: a team's test in memory says what a service would do."""
    if request.param == "in memory":
        return request.getfixturevalue("kit")  # type: ignore[no-any-return]  # by its name
    return OnPostgres(request.getfixturevalue("rig"))


async def test_orders_of_a_transaction_are_one_call(line: Line, shelf: Shelf) -> None:
    keys = [f"o{n}" for n in range(40)]
    assert await line.fates(keys) == dict.fromkeys(keys, "SUCCEEDED")
    assert (shelf.many, shelf.single) == ([keys], [])
    assert await line.applied() == 40


async def test_one_order_alone_is_executed_by_itself(line: Line, shelf: Shelf) -> None:
    assert await line.fates(["a"]) == {"a": "SUCCEEDED"}
    assert (shelf.many, shelf.single, await line.applied()) == ([], ["a"], 1)


async def test_a_refusal_is_found_by_calling_for_each(line: Line, shelf: Shelf) -> None:
    keys = [f"o{n}" for n in range(40)]
    shelf.refused = {"o7"}
    told = await line.fates(keys)
    assert told == {key: "REJECTED" if key == "o7" else "SUCCEEDED" for key in keys}
    assert (len(shelf.many), shelf.single) == (1, keys)
    assert await line.applied() == 39


@pytest.mark.parametrize("trouble", ["raises", "forgets one", "takes too long"])
async def test_what_goes_wrong_with_many_goes_right_with_each(
    line: Line, shelf: Shelf, trouble: str
) -> None:
    shelf.trouble = trouble
    keys = [f"o{n}" for n in range(10)]
    assert await line.fates(keys) == dict.fromkeys(keys, "SUCCEEDED")
    assert (shelf.many, shelf.single) == ([keys], keys)
    assert await line.applied() == 10


async def test_a_statement_that_fails_takes_nobody_with_it(rig: Rig, shelf: Shelf) -> None:
    shelf.trouble = "breaks the transaction"
    keys = [f"o{n}" for n in range(10)]
    assert await OnPostgres(rig).fates(keys) == dict.fromkeys(keys, "SUCCEEDED")
    assert (shelf.many, shelf.single, await rig.count("applied")) == ([keys], keys, 10)


async def test_a_kill_takes_all_of_the_transaction(kit: InMemory, shelf: Shelf) -> None:
    kit.kit.on("reserve").crash()
    keys = ["a", "b", "c"]
    assert await kit.fates(keys) == dict.fromkeys(keys, "SUCCEEDED")
    assert (shelf.many, await kit.applied()) == ([keys, keys], 3)


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
