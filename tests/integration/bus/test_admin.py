"""Topics are created once, on purpose, and described truthfully."""

import pytest

from sagabus_bus import (
    BusUnavailable,
    KafkaConnection,
    Publisher,
    Subscription,
    TopicAdmin,
    TopicMismatch,
    TopicUnavailable,
)
from sagabus_messages.topics import Topics
from sagabus_testkit import eventually

from .support import Books, Member, rows, spec, total_committed


async def test_the_catalogue_is_created_once(
    connection: KafkaConnection, topic_prefix: str
) -> None:
    specs = Topics(f"{topic_prefix}.").catalogue(["payment"], partitions=2)
    async with TopicAdmin(connection) as admin:
        first, second = await admin.ensure(specs), await admin.ensure(specs)
        assert all(topic.created for topic in first)
        assert not any(topic.created for topic in second)
        counts = await admin.partition_counts([one.name for one in specs] + ["nobody-made-this"])
    assert counts == {one.name: 2 for one in specs}


async def test_another_partition_count_is_refused_and_changes_nothing(
    connection: KafkaConnection, topic: str
) -> None:
    async with TopicAdmin(connection) as admin:
        with pytest.raises(TopicMismatch, match="has 3 partitions, not 4"):
            await admin.ensure([spec(topic, partitions=4)])
        assert await admin.partition_counts([topic]) == {topic: 3}


async def test_a_missing_topic_is_named(connection: KafkaConnection, topic: str) -> None:
    async with TopicAdmin(connection) as admin:
        with pytest.raises(TopicUnavailable, match="topic_missing: no such topic: gone"):
            await admin.require([topic, "gone"])


async def test_lag_and_life_of_a_group(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 30))
    books, wanted = Books(), Subscription("g-" + topic, (topic,))
    async with TopicAdmin(connection) as admin:
        assert sum(lag.behind for lag in await admin.lag(wanted.group, [topic])) == 30
        assert not (await admin.group(wanted.group)).alive
        async with Member(connection, wanted, books).running():
            await eventually(lambda: len(books.durable) == 30)
            state = await admin.group(wanted.group)
            assert (state.alive, [m.client_id for m in state.members]) == (True, ["test"])
        assert not (await admin.group(wanted.group)).alive, "a stop leaves the group"
        assert sum(lag.behind for lag in await admin.lag(wanted.group, [topic])) == 0
    assert await total_committed(connection, topic) == 30


async def test_no_broker_is_an_outage() -> None:
    with pytest.raises(BusUnavailable, match=r"reach Kafka at 127\.0\.0\.1:1"):
        async with TopicAdmin(KafkaConnection("127.0.0.1:1", "test")):
            pass
