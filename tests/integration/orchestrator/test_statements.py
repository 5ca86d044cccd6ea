"""A batch is a handful of statements, however many records it has."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Literal

import pytest

from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import OutboxRow, Record, WakeupRequest
from sagabus_orchestrator.quotas import OPERATION, START
from sagabus_runtime import failpoints
from sagabus_store import Connection, Database

from .support import Rig, commands, declared_failpoints, pause, resume


class Counted(Database):
    """Notes the text of every statement inside of transactions."""

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
        if statement.startswith("/*"):  # named; others are the driver's own, once per connection
            self.statements.append(statement.split("*/", maxsplit=1)[0])


@pytest.fixture
def counted(rig: Rig) -> list[str]:
    rig.database.__class__ = Counted
    assert isinstance(rig.database, Counted)
    rig.database.statements = []
    return rig.database.statements


async def mixed(rig: Rig, size: int, name: str) -> list[Record]:
    """Return `size` sagas' worth of starts, results, wake-ups, deferrals, ends and bad records."""
    keys = [f"{name}-{kind}-{n}" for kind in ("go", "pause", "end") for n in range(size)]
    sent = await rig.process(*(rig.start_record(key) for key in keys))
    for key in keys:
        if "-pause-" in key:
            await rig.operations.perform("acme", rig.saga(key), pause(f"pause {key}"))
    records = [rig.start_record(f"{name}-new-{n}") for n in range(size)]
    records += [rig.start_record(f"{name}-go-{n}") for n in range(size)]
    for command in commands(sent):
        failed = (
            ResultStatus.REJECTED if "-end-" in command.business_key else ResultStatus.SUCCEEDED
        )
        records.append(rig.result_record(command, failed))
    armed = [message for message in sent if isinstance(message, WakeupRequest)]
    records += [rig.wakeup_record(request) for request in armed[:size]]
    records += [rig.record(OutboxRow("sagabus.start.v1", b"k", (), b"{}")) for _ in range(size)]
    return records


async def test_the_number_of_statements_does_not_depend_on_the_batch(
    rig: Rig, counted: list[str]
) -> None:
    await rig.set_quota("acme", 10_000)
    told: dict[int, list[str]] = {}
    for size in (1, 10, 100):
        records = await mixed(rig, size, f"B{size}")
        counted.clear()
        await rig.handler.process(records)
        told[size] = list(counted)
    assert told[1] == told[10] == told[100]
    assert len(told[1]) <= 18
    assert await rig.count("deferred_message") == 111
    assert await rig.count("saga where status = 'COMPENSATED'") == 111


async def test_rates_cost_one_statement_and_only_where_there_is_one(
    rig: Rig, counted: list[str]
) -> None:
    told: dict[tuple[int, bool], list[str]] = {}
    for limited in (False, True):
        if limited:
            await rig.tenants.set_rate("acme", START, 10_000)
        for size in (1, 50):
            records = await mixed(rig, size, f"R{limited}{size}")
            counted.clear()
            await rig.handler.process(records)
            told[size, limited] = list(counted)
    assert told[1, False] == told[50, False]
    assert told[1, True] == told[50, True]
    assert set(told[1, True]) - set(told[1, False]) == {"/* use_rates "}
    assert len(told[1, True]) == len(told[1, False]) + 1


async def test_a_batch_of_nothing_but_rubbish_is_a_handful_too(
    rig: Rig, counted: list[str]
) -> None:
    rubbish = [rig.record(OutboxRow("sagabus.start.v1", b"k", (), b"{}")) for _ in range(200)]
    counted.clear()
    await rig.handler.process(rubbish)
    assert len(counted) <= 4
    assert await rig.dead_letters() == ["missing_header"] * 200


async def test_an_operation_is_a_handful_of_statements(rig: Rig, counted: list[str]) -> None:
    await rig.process(rig.start_record("ORD-1"))
    counted.clear()
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    assert len(counted) <= 10


async def test_a_failpoint_stands_behind_every_statement(rig: Rig, counted: list[str]) -> None:
    """So that a crash between any two statements is a crash that can be tested."""
    await rig.set_quota("acme", 10_000)
    for action in (START, OPERATION):
        await rig.tenants.set_rate("acme", action, 10_000)
    records = await mixed(rig, 2, "X")
    with ExitStack() as points:
        for name in declared_failpoints():
            points.enter_context(failpoints.on(name, partial(counted.append, "failpoint")))
        counted.clear()
        await rig.handler.process(records)
        await rig.operations.perform("acme", rig.saga("X-pause-0"), resume("r"))
    pairs = list(pairwise(counted))
    assert [first for first, second in pairs if "failpoint" not in (first, second)] == []
    assert counted.count("failpoint") >= 20
