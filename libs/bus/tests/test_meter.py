"""What a consumer tells about its lag, and about the way that its records came."""

import asyncio
from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError
from prometheus_client import CollectorRegistry

from sagabus_bus import BusMetrics
from sagabus_bus.meter import SAMPLES, ConsumerMeter
from sagabus_messages import Record, format_instant

NOW_MS = 1_767_225_600_000
START = TopicPartition("start", 0)


class Consumer:
    """What the meter asks of aiokafka's consumer."""

    def __init__(self, ends: dict[TopicPartition, int], positions: dict[TopicPartition, int]):
        self.ends = ends
        self.positions = positions
        self.resetting: set[TopicPartition] = set()

    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    def highwater(self, place: TopicPartition) -> int | None:
        return self.ends.get(place)

    async def position(self, place: TopicPartition) -> int:
        if place in self.resetting:  # the driver waits until it is found, or not ours any more
            await asyncio.create_task(taken_away(place))
        return self.positions[place]


async def taken_away(place: TopicPartition) -> None:
    raise IllegalStateError(f"Partition {place} is not assigned")


def meter(clock: SimpleNamespace) -> tuple[ConsumerMeter, CollectorRegistry]:
    registry = CollectorRegistry()
    made = ConsumerMeter(
        "g", BusMetrics(registry), clock=lambda: clock.s, wall_ms=lambda: clock.wall_ms
    )
    return made, registry


def record(written_ms: int, sent_ms: int, topic: str = "start") -> Record:
    headers = (("ce_time", format_instant(written_ms).encode()),)
    return Record(topic, 0, 0, b"k", b"{}", headers, sent_ms)


def value(registry: CollectorRegistry, name: str, **labels: Any) -> float | None:
    return registry.get_sample_value(name, labels)


async def test_lag_is_what_the_driver_knows_at_most_once_a_second_and_ends_with_the_member() -> (
    None
):
    clock = SimpleNamespace(s=0.0, wall_ms=NOW_MS)
    meters, registry = meter(clock)
    other, never_fetched = TopicPartition("start", 1), TopicPartition("wakeup", 0)
    consumer: Any = Consumer({START: 10, other: 5}, {START: 4, other: 5, never_fetched: 0})

    await meters.look(consumer)
    consumer.positions[START] = 10
    await meters.look(consumer)
    assert value(registry, "sagabus_bus_lag_records", group="g", topic="start") == 6

    clock.s += 1
    await meters.look(consumer)
    assert value(registry, "sagabus_bus_lag_records", group="g", topic="start") == 0

    clock.s, consumer.positions[START] = 2, 4
    await meters.look(consumer)
    meters.close()
    assert value(registry, "sagabus_bus_lag_records", group="g", topic="start") == 0


async def test_an_offset_that_is_being_reset_is_neither_waited_for_nor_an_error() -> None:
    meters, registry = meter(SimpleNamespace(s=0.0, wall_ms=NOW_MS))
    lost = TopicPartition("start", 1)
    consumer: Any = Consumer({START: 10, lost: 5}, {START: 4, lost: 0})
    consumer.resetting = {lost}

    await meters.look(consumer)

    assert value(registry, "sagabus_bus_lag_records", group="g", topic="start") == 6


async def test_a_topic_that_was_taken_away_leaves_no_lag_behind() -> None:
    clock = SimpleNamespace(s=0.0, wall_ms=NOW_MS)
    meters, registry = meter(clock)
    consumer: Any = Consumer({START: 10}, {START: 4})
    await meters.look(consumer)
    clock.s, consumer.positions = 5.0, {}
    await meters.look(consumer)
    assert value(registry, "sagabus_bus_lag_records", group="g", topic="start") == 0


def test_the_way_of_a_record_is_its_wait_for_the_relay_and_its_time_in_kafka() -> None:
    clock = SimpleNamespace(s=0.0, wall_ms=NOW_MS)
    meters, registry = meter(clock)
    with meters.handling([record(NOW_MS - 900, NOW_MS - 200)]):
        clock.s += 3
    assert value(registry, "sagabus_bus_outbox_seconds_sum", topic="start") == 0.7
    assert value(registry, "sagabus_bus_transit_seconds_sum", topic="start") == 0.2
    assert value(registry, "sagabus_bus_batch_seconds_sum", group="g") == 3.0


def test_a_batch_that_is_held_grows_older_at_each_scrape() -> None:
    clock = SimpleNamespace(s=0.0, wall_ms=NOW_MS)
    meters, registry = meter(clock)
    with meters.handling([record(NOW_MS, NOW_MS), record(NOW_MS, NOW_MS - 1_000)]):
        clock.wall_ms += 60_000
        assert value(registry, "sagabus_bus_behind_seconds", group="g") == 61.0
    assert value(registry, "sagabus_bus_behind_seconds", group="g") == 0.0


def test_a_large_batch_costs_as_much_as_a_small_one_and_odd_records_cost_nothing() -> None:
    meters, registry = meter(SimpleNamespace(s=0.0, wall_ms=NOW_MS))
    odd = Record("start", 0, 0, None, None, (("ce_time", b"\xff"),), -1)
    with meters.handling([record(NOW_MS, NOW_MS)] * 999 + [odd]):
        pass
    with meters.handling([odd]):
        pass
    measured = value(registry, "sagabus_bus_transit_seconds_count", topic="start")
    assert measured is not None
    assert measured <= SAMPLES + 1
