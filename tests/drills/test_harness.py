"""The drills themselves: what is lost, doubled or stuck on purpose must be reported, one by one."""

from pathlib import Path

import pytest

from sagabus_core import ids
from sagabus_testkit.orders import Order, Pace, scenario

from .support import Book, Load, Site

pytestmark = pytest.mark.drill
NAMES = ("fine", "untold", "stuck", "twice", "undone", "forgotten")
ORDERS = {name: Order(f"HARNESS-{name}", scenario("success"), "widget-1", 1, 100) for name in NAMES}


def saga_id(name: str) -> str:
    start = ORDERS[name].command
    return ids.saga_id(start.tenant, start.workflow, start.business_key)


def drop_rows(name: str, topic: str) -> list[str]:
    """A relay that loses records: every record of one saga in one topic."""
    return [
        (
            f"create function drop_{name}() returns trigger language plpgsql as "
            "$body$ begin return null; end $body$"
        ),
        (
            f"create trigger drop_{name} before insert on outbox for each row "
            f"when (new.topic like '%{topic}%' and new.key = '{saga_id(name)}'::bytea) "
            f"execute function drop_{name}()"
        ),
    ]


SHIP_TWICE = [
    (
        "create function ship_twice() returns trigger language plpgsql as $body$ begin "
        "insert into shipment (idempotency_key, shipment_id, order_key, address, status) "
        "values (gen_random_uuid(), 'twin', new.order_key, new.address, new.status); "
        "return null; end $body$"
    ),
    (
        "create trigger ship_twice after insert on shipment for each row "
        f"when (new.order_key = '{ORDERS['twice'].key}' and new.shipment_id <> 'twin') "
        "execute function ship_twice()"
    ),
]
"""A participant that runs twice."""


async def test_what_is_wrong_is_reported(site: Site, tmp_path: Path) -> None:
    def break_service(service: str, *statements: str) -> None:
        for statement in statements:
            site.system.servers.postgres.ask(statement, f"{site.system.name}_{service}")

    break_service("orchestrator", *drop_rows("untold", "lifecycle"))
    break_service("orchestrator", *drop_rows("stuck", "command.shipping"))
    break_service("shipping", *SHIP_TWICE)

    async def tamper() -> None:
        """Participants that forget what they have done, a database that forgets a saga."""
        key = ORDERS["undone"].key
        break_service("inventory", f"delete from reservation where order_key = '{key}'")
        for table in ("saga", "saga_key"):
            break_service(
                "orchestrator", f"delete from {table} where id = '{saga_id('forgotten')}'"
            )

    book = Book(lambda _: None, tmp_path / "drills.json")
    load = Load(list(ORDERS.values()), Pace(within_s=15), harm_after=4)
    with pytest.raises(AssertionError):
        await Site(site.stack, site.system, book).drill("harness", tamper, load)

    (entry,) = book.drills
    said = "\n".join(entry["problems"])
    assert not entry["ok"]
    assert (entry["stuck"], entry["duplicate_effects"], entry["lost"]) == (1, 1, 3), said
    for name, complaint in {
        "untold": "COMPLETED, and nobody was told",
        "stuck": "stuck, it is RUNNING",
        "twice": "shipped 2 times",
        "undone": "completed without its reservation",
        "forgotten": "its start is lost",
    }.items():
        assert (
            f"{ORDERS[name].key}: {complaint}" in said or f"{ORDERS[name].key}: COMPLETED" in said
        )
    assert ORDERS["fine"].key not in said
    assert "widget-1: " in said, "the shelf and the reservations do not add up"


async def test_a_drill_without_its_fault_fails(site: Site, tmp_path: Path) -> None:
    async def never() -> None:
        raise RuntimeError("out of order")

    async def drill(name: str, harm_after: int) -> str:
        book = Book(lambda _: None, tmp_path / f"{name}.json")
        orders = [Order(f"{name}-1", scenario("success"), "widget-2", 1, 100)]
        with pytest.raises(AssertionError):
            await Site(site.stack, site.system, book).drill(
                name, never, Load(orders, Pace(every_s=0), harm_after)
            )
        return str(book.drills[0]["problems"])

    assert "the fault never happened" in await drill("HARNESS-IDLE", 2)
    assert "out of order" in await drill("HARNESS-BROKEN", 1)
