"""A business event on its whole way: the caller's transaction, its outbox, the relay, Kafka."""

import asyncpg
import pytest

from sagabus_client import BusinessEvent, publish
from sagabus_testkit import eventually

from .support import Bench, make_topic, read, relaying


async def test_a_business_event_arrives_exactly_if_its_cause_commits(orders: Bench) -> None:
    topic = f"{orders.prefix}.shop.order-placed.v1"
    await make_topic(orders.stack, topic)

    def event(number: int) -> BusinessEvent:
        body = b'{"n": %d}' % number
        return BusinessEvent(topic, "shop.order-placed.v1", "urn:shop", "ORD-1", body)

    conn = await asyncpg.connect(orders.dsn)
    await conn.execute("create table placed (n integer)")
    with pytest.raises(ZeroDivisionError):
        async with conn.transaction():
            await publish(conn, event(0))
            raise ZeroDivisionError
    for number in range(1, 21):
        async with conn.transaction():
            await conn.execute("insert into placed values ($1)", number)
            await publish(conn, event(number))
    await conn.close()
    async with relaying(orders.settings()):
        await eventually(orders.drained, within=20)
    found = await read(orders.stack, topic)
    told = list(dict.fromkeys(record.value for record in found))  # a relay may repeat
    assert told == [b'{"n": %d}' % n for n in range(1, 21)]
    assert {record.key for record in found} == {b"ORD-1"}
    headers = dict(found[0].headers)
    assert (headers["ce_type"], headers["ce_source"]) == (b"shop.order-placed.v1", b"urn:shop")
    assert len({record.header("ce_id") for record in found}) == 20
