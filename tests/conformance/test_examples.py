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
from sagabus_testkit import LocalStack
from sagabus_testkit.orders import DEFINITION
from sagabus_testkit.system import Servers, System

from .support import Books, Killing

OUTBOXES = ("inventory", "payment", "shipping")
PARTS = ("cards", "relay", *OUTBOXES)
ORDER = '"order": "${business_key}"'


@dataclass(frozen=True)
class Example:
    step: str
    accepted: str
    rejected: str
    books: str
    """How its own tables count effects by their ids."""
    books_of: str = ""
    unknown: str = ""


EXAMPLES = {
    "inventory": Example(
        "reserve-stock",
        f'{{{ORDER}, "sku": "widget-1", "quantity": 2}}',
        f'{{{ORDER}, "sku": "sold-out", "quantity": 2}}',
        "select reservation_id::text, 1 from reservation",
    ),
    "payment": Example(
        "charge-card",
        f'{{{ORDER}, "card": "visa-1", "amount_cents": 100}}',
        f'{{{ORDER}, "card": "declined", "amount_cents": 100}}',
        "select idempotency_key, 1 from charge where status = 'charged'"
        " union all select idempotency_key, 1 from refund",
        "cards",
        f'{{{ORDER}, "card": "lost-answer", "amount_cents": 100}}',
    ),
    "shipping": Example(
        "ship",
        f'{{{ORDER}, "address": "1 Main Street"}}',
        f'{{{ORDER}, "address": "nowhere"}}',
        "select idempotency_key::text, 1 from shipment where status = 'SHIPPED'",
        "",
        f'{{{ORDER}, "address": "look-up:2 Side Street"}}',
    ),
}
NOT_THEIRS = {
    "inventory": set[Guarantee](),
    "payment": {Guarantee.CANCEL_FENCES, Guarantee.CANCEL_LATE},
    "shipping": {
        Guarantee.CANCEL_FENCES,
        Guarantee.CANCEL_LATE,
        Guarantee.UNDO_ONLY_SUCCESS,
        Guarantee.UNDO_ONCE,
        Guarantee.UNDO_RESOLVED,
    },
}
"""What resolve-only steps, and steps without an undo, have no part in."""


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


async def examined(system: System, name: str) -> Report:
    example = EXAMPLES[name]
    known = Profile(
        participant=name,
        step=example.step,
        schema_id="?",
        accepted=Template(example.accepted.encode()),
        rejected=Template(example.rejected.encode()),
        unknown=Template(example.unknown.encode()) if example.unknown else None,
        invalid=Template(b'{"order": 1}'),
    )
    profile = profile_of_definition(known, DEFINITION.read_bytes())
    plan = Plan(
        profile=replace(profile, tenant="acme"),
        effects=Books(system.database(example.books_of or name), example.books),
        killer=Killing(partial(system.kill, name), partial(system.spawn, name)),
        within_s=90,
        batch=20,
        kills=1,
    )
    return await run_suite(system.connection, system.topics, plan)


def test_they_keep_every_guarantee(system: System) -> None:
    async def examine() -> list[Report]:
        return await asyncio.gather(*(examined(system, name) for name in EXAMPLES))

    for report in asyncio.run(examine()):
        assert not report.broken, report.text()
        assert set(report.not_checked) == NOT_THEIRS[report.participant], report.text()
    missing, reserved = asyncio.run(shelf(system))
    assert missing == reserved > 0


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
