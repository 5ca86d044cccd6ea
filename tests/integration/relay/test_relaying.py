"""The relay on real servers: what is committed arrives, in order, whatever else is bad."""

import json

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from sagabus_messages.record import unpack_headers
from sagabus_relay.errors import NothingParked
from sagabus_relay.plan import Parking, Settlement
from sagabus_relay.table import Fetch
from sagabus_store import Database, DatabaseOptions, outbox
from sagabus_testkit import eventually

from .support import Bench, firsts, make_topic, number, read, relaying, row


async def test_rows_arrive_as_they_were_written_and_leave_the_table(orders: Bench) -> None:
    written = [row(orders.topic, f"k{n % 7}", n, size=n) for n in range(700)]
    async with relaying(orders.settings()):
        await orders.append(written)
        await eventually(orders.drained, within=20)
    found = await read(orders.stack, orders.topic)
    assert sorted(map(number, found)) == list(range(700))
    assert all(numbers == sorted(numbers) for numbers in firsts(found).values())
    by_number = {number(record): record for record in found}
    for n, wanted in enumerate(written):
        got = by_number[n]
        assert (got.key, got.value, got.headers) == (wanted.key, wanted.value, wanted.headers)


async def test_trap_01_a_row_that_commits_late_under_a_lower_id_is_not_skipped(
    orders: Bench,
) -> None:
    async with relaying(orders.settings()):
        slow = [orders.database.connection() for _ in range(3)]
        connections = [await each.__aenter__() for each in slow]
        transactions = [connection.transaction() for connection in connections]
        for n, (connection, transaction) in enumerate(zip(connections, transactions, strict=True)):
            await transaction.start()
            await outbox.append(connection, [row(orders.topic, f"slow{n}", n)])
        await orders.append([row(orders.topic, f"fast{n}", 100 + n) for n in range(200)])

        async def fast_ones_arrived() -> bool:
            return len(await read(orders.stack, orders.topic)) == 200

        await eventually(fast_ones_arrived, within=20)
        for transaction in reversed(transactions):
            await transaction.commit()
        for each in slow:
            await each.__aexit__(None, None, None)

        async def all_arrived() -> bool:
            return len(await read(orders.stack, orders.topic)) == 203

        await eventually(all_arrived, within=20)


async def test_trap_02_a_refused_row_parks_its_key_alone_and_redrive_keeps_the_order(
    orders: Bench,
) -> None:
    poison, followers = row(orders.topic, "bad", 0, 600_000), range(1, 4)
    async with relaying(orders.settings()):
        await orders.append([poison, *(row(orders.topic, f"good{n}", n) for n in range(50))])
        await eventually(orders.drained, within=20)
        await orders.append([row(orders.topic, "bad", n) for n in followers])
        await orders.append([row(orders.topic, "good0", 99)])
        await eventually(orders.drained, within=20)
        async with orders.table() as table:
            (parked,) = await table.parking.listed()
        assert (parked.topic, parked.key, parked.rows) == (orders.topic, b"bad", 4)
        assert parked.reason == "record_too_large"
        assert "bad" not in firsts(await read(orders.stack, orders.topic))
        await make_topic_larger(orders)
        assert await orders.redrive(orders.topic, b"bad") == 4
        await orders.append([row(orders.topic, "bad", 4)])

        async def came_in_order() -> bool:
            found = firsts(await read(orders.stack, orders.topic))
            return found.get("bad") == [0, 1, 2, 3, 4]

        await eventually(came_in_order, within=20)
        assert await orders.count("outbox_parked") == 0
        with pytest.raises(NothingParked):
            await orders.redrive(orders.topic, b"bad")


async def make_topic_larger(orders: Bench) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=orders.stack.kafka.bootstrap)
    await admin.start()
    await admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, orders.topic, {"max.message.bytes": "2000000"})]
    )
    await admin.close()


async def test_trap_02_a_row_above_the_relays_own_limit_parks_without_being_sent(
    orders: Bench,
) -> None:
    async with relaying(orders.settings(relay_record_bytes=1_000)):
        await orders.append(
            [row(orders.topic, "a", 1), row(orders.topic, "a", 2, 5_000), row(orders.topic, "a", 3)]
        )
        await eventually(orders.drained, within=20)
    assert await orders.count("outbox_parked") == 2
    async with relaying(orders.settings()):
        await orders.redrive(orders.topic, b"a")
        await eventually(orders.drained, within=20)
    assert firsts(await read(orders.stack, orders.topic)) == {"a": [1, 2, 3]}


async def test_trap_02_a_missing_topic_holds_that_topic_only_and_parks_nothing(
    orders: Bench,
) -> None:
    absent = f"{orders.prefix}.absent"
    async with relaying(orders.settings()):
        await orders.append([row(absent, f"k{n}", n) for n in range(20)])
        await orders.append([row(orders.topic, f"k{n}", n) for n in range(50)])

        async def others_flow() -> bool:
            return len(await read(orders.stack, orders.topic)) == 50 and await orders.count() == 20

        await eventually(others_flow, within=20)
        assert await orders.count("outbox_parked") == 0
        await make_topic(orders.stack, absent)
        await eventually(orders.drained, within=30)
    assert len(await read(orders.stack, absent)) == 20


@pytest.mark.parametrize("end", ["delivered", "refused", "followed"])
async def test_rows_of_a_restored_outbox_under_the_same_ids_are_left_alone(
    orders: Bench, end: str
) -> None:
    """The database is set back while a round is in hand, and writes on under ids of before."""
    await orders.append([row(orders.topic, "k", n) for n in range(3)])
    async with orders.table() as table:
        found = await table.fetch(Fetch(range(64), [], 10, 1_000_000))
        await orders.run("delete from outbox where id > 1; alter sequence outbox_id_seq restart 2")
        await orders.append([row(orders.topic, "k", n) for n in (10, 11)])
        parked = tuple(Parking(each, "record_invalid", "") for each in found)
        ends = {
            "delivered": (tuple(found), (), ()),
            "refused": ((), parked, ()),
            "followed": ((), parked[:1], tuple(found[1:])),
        }
        settlement = Settlement(*ends[end], frozenset(), frozenset(), None)
        await table.settle(settlement)
        left = await table.fetch(Fetch(range(64), [], 10, 1_000_000))
    assert [(r.id, dict(unpack_headers(r.headers))["n"]) for r in left] == [(2, b"10"), (3, b"11")]
    assert await orders.count("outbox_parked") == (0 if end == "delivered" else 1)


async def test_metrics_tell_what_waits_what_is_parked_and_what_was_sent(orders: Bench) -> None:
    absent = f"{orders.prefix}.metered"
    settings = orders.settings(relay_record_bytes=1_000)

    async with relaying(settings) as service:

        def metric(name: str, **labels: str) -> float:
            found = service.health.registry.get_sample_value(
                f"sagabus_relay_{name}", {"outbox": "orders", **labels}
            )
            return found or 0.0

        await orders.append([row(absent, "k", n) for n in range(7)])
        await orders.append([row(orders.topic, "bad", 0, 5_000), row(orders.topic, "good", 1)])
        await eventually(lambda: metric("waiting_rows") == 7, within=20)
        await eventually(lambda: metric("oldest_row_seconds") > 0, within=20)
        await eventually(lambda: metric("parked_keys") == 1, within=20)
        assert metric("parked_total", reason="record_too_large") == 1
        assert metric("held_topics", slot="0") == 1
        assert metric("rows_total") == 1
        await make_topic(orders.stack, absent)
        await eventually(lambda: metric("waiting_rows") == 0, within=30)
        assert metric("rows_total") == 8
        assert metric("held_topics", slot="0") == 0, "a topic that is there is held no more"
        assert metric("oldest_row_seconds") == 0


async def test_an_outbox_that_is_away_does_not_keep_the_others_waiting(orders: Bench) -> None:
    gone = orders.dsn.replace(f"{orders.prefix}_orders", "no_such_database")
    async with relaying(orders.settings(outboxes=json.dumps({"gone": gone, "orders": orders.dsn}))):
        await orders.append([row(orders.topic, "k", n) for n in range(20)])
        await eventually(orders.drained, within=20)
    assert firsts(await read(orders.stack, orders.topic)) == {"k": list(range(20))}


async def test_replicas_share_slots_fairly_and_hand_over_on_stop(orders: Bench) -> None:
    settings = orders.settings(relay_slots=4)

    async def owners() -> list[int]:
        database = Database(orders.relay_dsn, DatabaseOptions(application_name="test", pool_size=1))
        await database.open()
        try:
            async with database.connection() as connection:
                found = await connection.fetch(
                    "select count(*) from relay_lease where expires_at > clock_timestamp()"
                    " group by replica order by 1"
                )
        finally:
            await database.close()
        return [record["count"] for record in found]

    async def shared() -> bool:
        return await owners() == [2, 2]

    async def alone() -> bool:
        return await owners() == [4]

    async with relaying(settings):
        await eventually(alone, within=10)
        async with relaying(settings):
            await eventually(shared, within=10)
            await orders.append([row(orders.topic, f"k{n % 9}", n) for n in range(300)])
            await eventually(orders.drained, within=20)
        await eventually(alone, within=10)
    assert await owners() == []
    found = await read(orders.stack, orders.topic)
    assert all(numbers == sorted(numbers) for numbers in firsts(found).values())
