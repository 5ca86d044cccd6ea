"""A queue is often empty when analysed: the plans of that moment must also drain a backlog."""

import pytest

from sagabus_relay.app import outbox_table
from sagabus_relay.config import OutboxSource
from sagabus_store import Queries

from .support import Bench, row

STATEMENTS = {"delete": "'{}', '{}', '{}'", "park": "'{}', '{}', '{}', '{}', '{}'"}
STATEMENTS["follow"] = STATEMENTS["delete"]


@pytest.mark.parametrize("pages", ["none", "left"])
async def test_rows_are_removed_by_their_place_whatever_the_table_was_when_it_was_analysed(
    orders: Bench, pages: str
) -> None:
    await orders.append([row(orders.topic, f"k{n}", n, 500) for n in range(500)])
    await orders.run("delete from outbox")
    await orders.run("analyze outbox" if pages == "left" else "vacuum analyze outbox")
    queries = Queries("sagabus_relay", "sql/outbox.sql")
    source = OutboxSource.model_validate({"name": "orders", "dsn": orders.dsn})
    table = outbox_table(source, 1)
    await table.open()
    try:
        async with table._database.connection() as connection:
            await connection.execute("set plan_cache_mode = force_generic_plan")
            for name, arguments in STATEMENTS.items():
                await connection.execute(f"prepare it as {queries[name]}")
                found = await connection.fetch(f"explain execute it ({arguments})")
                await connection.execute("deallocate it")
                plan = "\n".join(line[0] for line in found)
                assert "Tid Scan on outbox o" in plan, plan
                assert "Join Filter" not in plan, plan
    finally:
        await table.close()
