"""A reader without a group sees all that is written after it came, wherever it is written."""

from sagabus_bus import KafkaConnection, Publisher, Tail
from sagabus_testkit import eventually
from sagabus_testkit.faults import add_partitions

from .support import break_fetching, number, rows

COUNT = 60


async def test_what_is_written_to_added_partitions_is_seen_too(
    connection: KafkaConnection, publisher: Publisher, topic: str
) -> None:
    async with Tail(connection, [topic]) as tail:
        await publisher.publish(rows(topic, COUNT))
        seen = [number(record) for record in await tail.poll(wait_ms=5_000, max_records=10)]
        await add_partitions(connection, [topic], 8)
        knowing = Publisher(connection)
        await knowing.publish(rows(topic, COUNT, keys=COUNT, start=COUNT))
        await knowing.close()
        assert tail._consumer is not None
        await tail._consumer._client.force_metadata_update()

        async def all_seen() -> bool:
            seen.extend(number(record) for record in await tail.poll())
            return len(seen) >= 2 * COUNT

        await eventually(all_seen, what="every record, those in new partitions too")

    assert sorted(seen) == list(range(2 * COUNT))


async def test_a_reader_whose_driver_breaks_goes_on_where_it_was(
    connection: KafkaConnection, publisher: Publisher, topic: str
) -> None:
    async with Tail(connection, [topic]) as tail:
        await publisher.publish(rows(topic, COUNT))
        seen: list[int] = []

        async def has_seen(count: int) -> bool:
            seen.extend(number(record) for record in await tail.poll())
            return len(seen) >= count

        await eventually(lambda: has_seen(COUNT))
        assert tail._consumer is not None
        await break_fetching(tail._consumer)
        await publisher.publish(rows(topic, COUNT, start=COUNT))
        await eventually(lambda: has_seen(2 * COUNT))

    assert sorted(seen) == list(range(2 * COUNT))
