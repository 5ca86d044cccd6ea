"""The example participants keep every guarantee, killed in the middle of a batch as well."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from sagabus_conformance import (
    Guarantee,
    Plan,
    Profile,
    Report,
    Template,
    profile_of_definition,
    run_suite,
)
from sagabus_testkit import LocalStack, eventually
from sagabus_testkit.orders import DEFINITION
from sagabus_testkit.system import Servers, System

from .support import Books, Killing

OUTBOXES = ("inventory", "payment", "shipping")
PARTS = ("cards", "relay", *OUTBOXES)
ORDER = '"order": "${business_key}"'


G = Guarantee
RESERVATION = "3ad5c55d-4ccf-5c33-8466-cf4514818522"
KILL = {G.KILL_LOSES_NOTHING, G.KILL_REPEATS_NOTHING, G.KILL_KEEPS_FENCES}
CANCEL = {G.CANCEL_FENCES, G.CANCEL_LATE}
UNDO = {G.UNDO_ONLY_SUCCESS, G.UNDO_ONCE, G.UNDO_RESOLVED}
RESOLVE = {G.RESOLVE_FENCES, G.RESOLVE_TRUE, G.NO_CONTRADICTION}


@dataclass(frozen=True)
class Example:
    """A step, payloads of each kind, and how its own tables count effects by their ids."""

    participant: str
    step: str
    accepted: str
    rejected: str = ""
    unknown: str = ""
    books: str = ""
    books_of: str = ""
    not_theirs: frozenset[Guarantee] = frozenset()


EXAMPLES = (
    Example(
        "inventory",
        "reserve-stock",
        f'{{{ORDER}, "sku": "widget-1", "quantity": 2}}',
        f'{{{ORDER}, "sku": "sold-out", "quantity": 2}}',
        books="select reservation_id::text, 1 from reservation",
    ),
    Example(
        "payment",
        "charge-card",
        f'{{{ORDER}, "card": "visa-1", "amount_cents": 100}}',
        f'{{{ORDER}, "card": "declined", "amount_cents": 100}}',
        f'{{{ORDER}, "card": "lost-answer", "amount_cents": 100}}',
        "select idempotency_key, 1 from charge where status = 'charged'"
        " union all select idempotency_key, 1 from refund",
        "cards",
        frozenset(CANCEL),
    ),
    Example(
        "shipping",
        "ship",
        f'{{{ORDER}, "address": "1 Main Street"}}',
        f'{{{ORDER}, "address": "nowhere"}}',
        f'{{{ORDER}, "address": "look-up:2 Side Street"}}',
        "select idempotency_key::text, 1 from shipment where status = 'SHIPPED'",
        not_theirs=frozenset(CANCEL | UNDO),
    ),
    # Killed as well, whenever the other step of its process is.
    Example(
        "inventory",
        "confirm",
        f'{{{ORDER}, "reservation_id": "{RESERVATION}"}}',
        not_theirs=frozenset(CANCEL | UNDO | RESOLVE | KILL | {G.REJECTED_FINAL}),
    ),
)
"""A local, an external, a called-back and a retriable step."""


@pytest.fixture
def system(stack: LocalStack, topic_prefix: str, tmp_path: Path) -> Iterator[System]:
    servers = Servers.of(stack)
    outboxes = {name: servers.dsn(name, f"{topic_prefix}_{name}") for name in OUTBOXES}
    settings = {"relay": {"SAGABUS_OUTBOXES": json.dumps(outboxes)}}
    with System(servers, tmp_path, name=topic_prefix, settings=settings) as made:
        made.prepare()
        for part in PARTS:
            made.spawn(part)
        yield made


async def examined(system: System, example: Example) -> Report:
    name = example.participant
    known = Profile(
        participant=name,
        step=example.step,
        schema_id="?",
        accepted=Template(example.accepted.encode()),
        rejected=Template(example.rejected.encode()) if example.rejected else None,
        unknown=Template(example.unknown.encode()) if example.unknown else None,
        invalid=Template(b'{"order": 1}'),
    )
    profile = profile_of_definition(known, DEFINITION.read_bytes())
    counted = bool(example.books)
    killing = Killing(partial(system.kill, name), partial(system.spawn, name))
    plan = Plan(
        profile=replace(profile, tenant="acme"),
        effects=Books(system.database(example.books_of or name), example.books)
        if counted
        else None,
        killer=killing if counted else None,
        within_s=90,
        batch=20,
        kills=1,
    )
    return await run_suite(system.connection, system.topics, plan)


def test_they_keep_every_guarantee(system: System) -> None:
    async def examine() -> list[Report]:
        await eventually(lambda: reserved(system), within=60)
        return await asyncio.gather(*(examined(system, each) for each in EXAMPLES))

    for example, report in zip(EXAMPLES, asyncio.run(examine()), strict=True):
        assert not report.broken, report.text()
        assert set(report.not_checked) == example.not_theirs, report.text()
    missing, open_ones = asyncio.run(shelf(system))
    assert missing == open_ones > 0


async def reserved(system: System) -> bool:
    """Make what `confirm` sells, once the tables are there."""
    connection = await asyncpg.connect(system.database("inventory"))
    try:
        await connection.execute(
            "insert into reservation values ($1, 'ORD', 'widget-2', 1, 'RESERVED')", RESERVATION
        )
    except asyncpg.UndefinedTableError:
        return False
    finally:
        await connection.close()
    return True


async def shelf(system: System) -> tuple[int, int]:
    """How much is off the shelf, and how much the open reservations account for."""
    connection = await asyncpg.connect(system.database("inventory"))
    try:
        return (
            await connection.fetchval(
                "select 1000000 - available from stock where sku = 'widget-1'"
            ),
            await connection.fetchval(
                "select sum(quantity) from reservation where status = 'RESERVED'"
            ),
        )
    finally:
        await connection.close()
