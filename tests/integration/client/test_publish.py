"""A business event is in the outbox exactly if the transaction of its cause commits."""

from collections.abc import AsyncIterator

import pytest

from sagabus_client import BusinessEvent, publish
from sagabus_core.errors import InvalidValue
from sagabus_messages import unpack_headers
from sagabus_store import SHARED, Database, DatabaseOptions, migrate


def event(number: int, topic: str = "shop.order-placed.v1") -> BusinessEvent:
    return BusinessEvent(topic, "shop.order-placed.v1", "urn:shop", "ORD-1", b'{"n": %d}' % number)


@pytest.fixture
async def books(database: str) -> AsyncIterator[Database]:
    await migrate(database, [SHARED])
    opened = Database(database, DatabaseOptions(application_name="test", pool_size=2))
    await opened.open()
    yield opened
    await opened.close()


async def test_events_are_written_in_the_order_of_their_commits(books: Database) -> None:
    for number in (1, 2):
        async with books.transaction() as conn:
            await publish(conn, event(number))

    async with books.connection() as conn:
        rows = await conn.fetch("select topic, key, headers, value from outbox order by id")
    assert [bytes(row["value"]) for row in rows] == [b'{"n": 1}', b'{"n": 2}']
    headers = dict(unpack_headers(bytes(rows[0]["headers"])))
    assert (rows[0]["topic"], bytes(rows[0]["key"])) == ("shop.order-placed.v1", b"ORD-1")
    assert (headers["ce_specversion"], headers["ce_type"]) == (b"1.0", b"shop.order-placed.v1")
    assert {"ce_id", "ce_source", "ce_subject", "ce_time", "content-type"} <= headers.keys()


async def test_a_rolled_back_cause_publishes_nothing(books: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        async with books.transaction() as conn:
            await publish(conn, event(1))
            raise ZeroDivisionError

    async with books.connection() as conn:
        assert await conn.fetchval("select count(*) from outbox") == 0


async def test_topics_of_sagabus_are_out_of_bounds(books: Database) -> None:
    with pytest.raises(InvalidValue, match="reserved_topic"):
        async with books.transaction() as conn:
            await publish(conn, event(1, topic="prod.sagabus.start.v1"))
