"""Sagas that need a person end as the person decides, from Kafka to Kafka."""

import pytest

from sagabus_client import SagabusClient, SagaHandle
from sagabus_core.vocabulary import SagaStatus
from sagabus_testkit import eventually
from sagabus_testkit.orders import Ending, Order, reconcile, scenario

from .support import Shop

WHY = ("--reason", "the shelf was locked")
LOCK = """alter table reservation add constraint held
    check (order_key not like 'HELD-%' or status <> 'RELEASED')"""
RELEASE = """with released as (
    update reservation set status = 'RELEASED' where order_key = '{key}' returning sku, quantity
) update stock s set available = available + quantity from released r where s.sku = r.sku
returning s.sku"""
ENDS = {
    "HELD-RETRY": SagaStatus.COMPENSATED,
    "HELD-RECORD": SagaStatus.COMPENSATED,
    "HELD-CLOSE": SagaStatus.MANUALLY_CLOSED,
}


async def told(client: SagabusClient, handle: SagaHandle, status: SagaStatus) -> None:
    """Wait until the lifecycle topic tells that a saga stands somewhere."""

    def stands() -> bool:
        news = client.latest(handle)
        return news is not None and news.status == status

    await eventually(stands, within=60, what=f"{handle.business_key} {status}")


async def test_an_operator_retries_records_and_closes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGABUS_MANUAL_CLOSE_ENABLED", "true")
    orders = [Order(key, scenario("no-delivery"), "widget-1", 1, 500) for key in ENDS]
    shop.ask("inventory", LOCK)
    async with SagabusClient(shop.system.connection, shop.system.topics, name="test") as client:
        handles = await client.start_all([order.command for order in orders])
        for handle in handles:
            await told(client, handle, SagaStatus.MANUAL_INTERVENTION)
        reasons = [shop.document("show", key)["reasons"] for key in ENDS]

        shop.ask("inventory", "alter table reservation drop constraint held")
        for by_hand in ("HELD-RECORD", "HELD-CLOSE"):
            shop.ask("inventory", RELEASE.format(key=by_hand))
        undone = ("--attest", "undo:reserve-stock=HAPPENED", "--evidence", "counted the shelf")
        retried = shop.document("retry", "HELD-RETRY", *WHY)
        recorded = shop.document("record-outcome", "HELD-RECORD", *undone, *WHY)
        closed = shop.document("close", "HELD-CLOSE", *WHY)
        for handle in handles:
            await told(client, handle, ENDS[handle.business_key])

    assert reasons == [{"member:reserve-stock": "compensation_halted"}] * len(ENDS)
    assert retried["commands"] == ["COMPENSATE reserve-stock attempt 2"]
    assert (recorded["commands"], closed["commands"]) == ([], [])
    endings = [Ending(order, SagaStatus.COMPENSATED) for order in orders]
    assert await reconcile(shop.system, endings) == []
