"""What a batch costs, and that sharing a savepoint never changes what happens."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import pytest
from pydantic import BaseModel

from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import MessageError, Record, Result
from sagabus_participant import (
    CommandBatches,
    ExecutedLocally,
    LocalContext,
    LocalStep,
    Participant,
    Rejected,
    StepOptions,
    Succeeded,
    Undone,
)
from sagabus_store import Connection, Database

E, C, K, R = Phase.EXECUTE, Phase.CANCEL, Phase.COMPENSATE, Phase.RESOLVE
S: TypeAlias = ResultStatus
Rig: TypeAlias = Any  # the class of conftest.py, which importlib mode cannot import
INSERT = "insert into applied values ($1, $2)"


class Order(BaseModel):
    order: str


class Shelf(LocalStep[Order]):
    """One statement per call; refuses the orders that it is told to."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.calls: list[str] = []

    async def execute(self, ctx: LocalContext, order: Order) -> ExecutedLocally:
        self.calls.append(order.order)
        await ctx.conn.execute(INSERT, ctx.execute_key, order.order)
        return Rejected("out_of_stock") if order.order in self.refused else Succeeded()

    async def compensate(self, ctx: LocalContext) -> Undone:
        await ctx.conn.execute(INSERT, ctx.execute_key, "undone")
        return Succeeded()


class Counted(Database):
    """Notes the statements inside of transactions, apart from the handlers' own."""

    statements: list[str]

    @asynccontextmanager
    async def transaction(
        self,
        *,
        isolation: Literal["read_committed", "repeatable_read", "serializable"] = "read_committed",
    ) -> AsyncIterator[Connection]:
        async with super().transaction(isolation=isolation) as conn:
            with conn.query_logger(lambda query: self._note(query.query)):
                yield conn

    def _note(self, statement: str) -> None:
        if statement.startswith("/*"):  # named; the rest is the handlers' or the driver's own
            self.statements.append(statement.split("*/", maxsplit=1)[0])


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def rig(rig_of: Rig, shelf: Shelf) -> Rig:
    participant = Participant("inventory")
    participant.add("reserve", Order, shelf, StepOptions())
    return await rig_of(participant, "reserve")


@pytest.fixture
def counted(rig: Rig) -> list[str]:
    rig.db.__class__ = Counted
    rig.db.statements = []
    statements: list[str] = rig.db.statements
    return statements


async def test_a_batch_is_a_handful_of_statements_beside_the_handlers_own(
    rig: Rig, counted: list[str], shelf: Shelf
) -> None:
    told: dict[int, list[str]] = {}
    for size in (2, 20, 40):
        done = [rig.command(E, key=f"{size}-done-{n}") for n in range(size)]
        asked = [rig.command(R, target=E, key=f"{size}-asked-{n}") for n in range(size)]
        await rig.send(*done)
        records = [rig.command(E, key=f"{size}-{n}") for n in range(size)]
        records += [rig.command(K, key=f"{size}-done-{n}") for n in range(size)]
        counted.clear()
        await rig.send(*records, *asked, records[0])
        told[size] = list(counted)
    assert told[2] == told[20] == told[40]
    assert len(told[2]) <= 13, told[2]
    assert len(shelf.calls) == len(set(shelf.calls)) == 2 * 62
    assert {result.status for result in rig.heard} == {S.SUCCEEDED, S.REJECTED}


async def fates(rig: Rig, batches: CommandBatches, keys: list[str]) -> dict[str, ResultStatus]:
    await batches.process([rig.command(E, key=key) for key in keys])
    results: list[Result] = await rig.answers()
    assert len(results) == len(keys)
    return {result.business_key: result.status for result in results}


async def test_a_refusal_among_many_costs_one_repeat_and_changes_nothing(
    rig: Rig, shelf: Shelf
) -> None:
    keys = [f"o{n}" for n in range(40)]
    shelf.refused = {"o30"}
    batches = CommandBatches(rig.shell)
    told = await fates(rig, batches, keys)
    assert told == {key: S.REJECTED if key == "o30" else S.SUCCEEDED for key in keys}
    assert await rig.count("applied") == 39, "what was rolled back with the refusal is there again"
    assert shelf.calls.count("o0") == 2
    assert shelf.calls.count("o39") == 1, "behind the refusal nothing had been tried yet"


async def test_where_refusals_are_common_hardly_anything_is_repeated(
    rig: Rig, shelf: Shelf
) -> None:
    keys = [f"o{n}" for n in range(400)]
    shelf.refused = {key for key in keys if int(key[1:]) % 3 == 0}
    batches = CommandBatches(rig.shell)
    await fates(rig, batches, keys[:200])
    shelf.calls.clear()
    told = await fates(rig, batches, keys[200:])
    assert told == {key: S.REJECTED if key in shelf.refused else S.SUCCEEDED for key in keys[200:]}
    assert len(shelf.calls) <= 200 * 1.1
    assert await rig.count("applied") == 400 - len(shelf.refused)


async def test_the_commands_of_one_activation_meet_what_the_earlier_ones_left(
    rig: Rig, shelf: Shelf
) -> None:
    told = await rig.send(
        rig.command(E, key="a"),
        rig.command(E, key="b"),
        rig.command(C, key="a"),
        rig.command(K, key="a"),
        rig.command(E, 2, key="b"),
        rig.command(C, key="c"),
        rig.command(E, key="c"),
    )
    heard: dict[str, list[ResultStatus]] = {}
    for result in told:
        heard.setdefault(result.business_key, []).append(result.status)
    assert heard == {
        "a": [S.SUCCEEDED, S.ALREADY_TERMINAL, S.SUCCEEDED],
        "b": [S.SUCCEEDED, S.SUCCEEDED],
        "c": [S.CANCEL_CONFIRMED, S.REJECTED],
    }
    assert shelf.calls == ["a", "b"]


async def test_slow_handlers_get_transactions_of_their_own(
    rig: Rig, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagabus_participant.batches.LONG_MS", 0)
    committed: list[int] = []
    batches = CommandBatches(rig.shell, on_progress=lambda: committed.append(len(shelf.calls)))
    records: list[Record] = [rig.command(E, key=f"o{n}") for n in range(400)]
    await batches.process(records)
    sizes = [after - before for before, after in pairwise([0, *committed])]
    assert sizes == [128, 128, 64, 32, 16, 8, 4, 2, *[1] * 18]
    assert await rig.count("applied") == 400


async def test_a_bad_record_far_behind_keeps_nothing_from_being_handled(
    rig: Rig, shelf: Shelf
) -> None:
    good = [rig.command(E, key=f"o{n}") for n in range(200)]
    bad = replace(good[150], value=b"{}")
    with pytest.raises(MessageError):
        await CommandBatches(rig.shell).process([*good[:150], bad, *good[151:]])
    assert await rig.count("applied") == 128, "what was committed stands; the rest comes again"
    await CommandBatches(rig.shell).process(good)
    assert sorted(shelf.calls) == sorted(f"o{n}" for n in range(200))


async def test_what_the_same_transaction_did_before_is_not_taken_for_new(
    rig: Rig, shelf: Shelf
) -> None:
    batches = CommandBatches(rig.shell)
    async with rig.db.transaction() as conn:
        for phase in (E, K, K, R):
            target = E if phase is R else None
            record = rig.command(phase, attempt=1, target=target)
            for again in (record, rig.command(phase, attempt=2, target=target)):
                await batches.process_within(conn, [again])
    told = [(result.phase, result.status) for result in await rig.answers()]
    assert told[:4] == [(E, S.SUCCEEDED)] * 2 + [(K, S.SUCCEEDED)] * 2
    assert set(told[4:]) == {(R, S.SUCCEEDED)}
    assert await rig.count("applied") == 2, "one effect and one undo"
