"""Sagas in memory whose local handlers run SQL on a real database: `transaction=db.transaction`."""

from collections.abc import AsyncIterator

import pytest

from sagabus_example_inventory.app import TABLES
from sagabus_example_inventory.handlers import inventory
from sagabus_participant import Rejected, Succeeded
from sagabus_store import Database, DatabaseOptions, migrate
from sagabus_testkit.memory import KitMaker
from sagabus_testkit.orders import DEFINITION, make_orders

ORDER = {**make_orders(1)[0].payload, "sku": "widget-1", "quantity": 2}


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    await migrate(database, [TABLES])
    opened = Database(database, DatabaseOptions("kit", pool_size=2))
    await opened.open()
    yield opened
    await opened.close()


async def test_sql_is_committed_undone_and_rolled_back(saga_kit: KitMaker, db: Database) -> None:
    kit = saga_kit(DEFINITION, inventory, transaction=db.transaction)
    kit.stub("charge-card", Succeeded({"charge_id": "c-1"}))
    kit.stub("ship", Succeeded({"shipment_id": "s-1"}))
    kit.on("reserve-stock").crash()

    sold = await kit.run(ORDER)
    kit.stub("charge-card", Rejected("card_declined"))
    declined = await kit.run(ORDER)
    unknown = await kit.run({**ORDER, "sku": "gadget"})

    sold.expect(
        "COMPLETED",
        calls=[
            "reserve-stock.execute",
            "reserve-stock.execute",
            "charge-card.execute",
            "ship.execute",
            "confirm.execute",
        ],
    )
    declined.expect("COMPENSATED", undone=["reserve-stock"])
    unknown.expect("COMPENSATED", done=[], reason="step_rejected")
    async with db.connection() as conn:
        rows = await conn.fetch("select status, quantity from reservation order by status")
        left = await conn.fetchval("select available from stock where sku = 'widget-1'")
    assert [tuple(row) for row in rows] == [("RELEASED", 2), ("SOLD", 2)]
    assert left == 1_000_000 - 2
