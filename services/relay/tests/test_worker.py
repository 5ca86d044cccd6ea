"""A slot's worker and the keeper of slots, against a table, a delivery and leases in memory."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from sagabus_bus import BusMisconfigured, BusUnavailable, ProducerFenced
from sagabus_relay.backlog import BacklogWatch
from sagabus_relay.events import RelayEvents
from sagabus_relay.keeper import SlotKeeper
from sagabus_relay.lease import Lease
from sagabus_relay.leases import LeasePolicy
from sagabus_relay.pace import PacePolicy
from sagabus_relay.plan import Limits, Outcome, Refused, Row, Sent, Settlement, Unsent
from sagabus_relay.slots import Slot
from sagabus_relay.table import Backlog, Fetch, OutboxTable
from sagabus_relay.worker import SlotWorker, WorkerPolicy
from sagabus_runtime import BackOffPolicy, Pulse
from sagabus_store import StoreRejected, StoreUnavailable
from sagabus_testkit import eventually

WRITTEN_AT = datetime(2026, 1, 1, tzinfo=UTC)
SLOT = Slot("orders", 0, 1)
POLICY = WorkerPolicy(Limits(10, 10_000, 1_000), PacePolicy(0, 1, 1), BackOffPolicy(1, 2))


class Table:
    def __init__(self, rows: int) -> None:
        self.hot = [Row(n, n % 64, "t", b"k", b"", b"v", WRITTEN_AT) for n in range(rows)]
        self.parked: list[int] = []
        self.fetches = 0

    async def open(self) -> None: ...

    async def fetch(self, what: Fetch) -> list[Row]:
        self.fetches += 1
        return self.hot[: what.rows]

    async def settle(self, settlement: Settlement) -> None:
        self.parked += [p.row.id for p in settlement.park]
        gone = {r.id for r in settlement.delete} | set(self.parked)
        self.hot = [r for r in self.hot if r.id not in gone]


class Delivered:
    """A delivery whose answers are given; `script` holds errors and outcomes of the next calls."""

    def __init__(self, *script: Exception | Outcome) -> None:
        self.script = list(script)
        self.sent: list[int] = []
        self.log: list[str] = []
        self.before: Callable[[], None] = lambda: None

    async def open(self) -> None:
        self.log.append("open")

    async def deliver(self, rows: Sequence[Row]) -> list[Outcome]:
        self.before()
        answer = self.script.pop(0) if self.script else Sent()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Sent):
            self.sent += [row.id for row in rows]
        return [answer for _ in rows]

    async def close(self) -> None:
        self.log.append("close")

    async def abandon(self) -> None:
        self.log.append("abandon")


def held(clock: Callable[[], float] = lambda: 0.0) -> Lease:
    lease = Lease(SLOT, clock)
    lease.extend(0, 1_000)
    return lease


def worker(table: Table, delivery: Delivered, lease: Lease | None = None) -> SlotWorker:
    events = RelayEvents(CollectorRegistry())
    return SlotWorker(lease or held(), table, delivery, POLICY, events)  # type: ignore[arg-type]  # a fake table


async def test_outages_delay_and_lose_nothing() -> None:
    table = Table(25)
    away, odd = BusUnavailable("x", "x"), StoreRejected("x", "x")
    delivery = Delivered(away, Unsent("broker away"), odd, Unsent("broker away"))
    subject = worker(table, delivery)
    task = asyncio.create_task(subject.run())
    await eventually(lambda: not table.hot)
    subject.stop()
    await task
    assert delivery.sent == list(range(25))
    assert delivery.log == ["open"] * 3 + ["close", "abandon"]


async def test_a_fenced_producer_is_not_opened_again_without_a_new_lease() -> None:
    delivery = Delivered(ProducerFenced("producer_fenced", "x"))
    await worker(Table(3), delivery).run()
    assert delivery.log == ["open", "close", "abandon"]
    assert not delivery.sent


async def test_what_people_have_to_mend_at_kafka_is_held_and_told() -> None:
    table, refused = Table(3), BusMisconfigured("bus_misconfigured", "no rights")
    delivery = Delivered(*[refused] * 3)
    subject = worker(table, delivery)
    told: list[str | None] = []
    delivery.before = lambda: told.append(subject.trouble)
    task = asyncio.create_task(subject.run())
    await eventually(lambda: not table.hot)
    subject.stop()
    await task
    assert ["no rights" in (trouble or "") for trouble in told] == [False, True, True, True]
    assert subject.trouble is None


async def test_an_owner_that_lost_its_lease_during_a_round_parks_nothing() -> None:
    now, table = [0.0], Table(1)
    delivery = Delivered(Refused("record_invalid", "x"))
    delivery.before = lambda: now.__setitem__(0, 5_000.0)
    await worker(table, delivery, held(lambda: now[0])).run()
    assert not table.parked
    assert len(table.hot) == 1


async def test_a_programming_error_ends_the_worker() -> None:
    with pytest.raises(ZeroDivisionError):
        await worker(Table(1), Delivered(ZeroDivisionError())).run()


class Leases:
    """A lease store whose answers are set by the test."""

    def __init__(self) -> None:
        self.held = frozenset({SLOT})
        self.error: Exception | None = None
        self.log: list[str] = []

    async def register(self, outboxes: dict[str, int]) -> dict[str, int]:
        return outboxes

    async def turn(self, slots: dict[str, int]) -> tuple[frozenset[Slot], int]:
        if self.error is not None:
            raise self.error
        return self.held, 0

    async def release(self, slots: Sequence[Slot]) -> None:
        self.log.append("release")

    async def leave(self) -> None:
        self.log.append("leave")


class Office:
    """A keeper on leases in memory, its clock set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.leases, self.table = Leases(), Table(0)
        self.workers: list[SlotWorker] = []
        self.deliveries: list[Delivered] = []
        self.stop = asyncio.Event()
        self.keeper = SlotKeeper(
            self.leases,  # type: ignore[arg-type]  # a fake store
            LeasePolicy(3_000, 500, 1),
            {"orders": 1},
            self.hire,
            RelayEvents(CollectorRegistry()),
            lambda: self.now,
        )
        self.task = asyncio.create_task(self.keeper.run(Pulse("leases", 60_000, self.stop)))

    def hire(self, slot: Slot, lease: Lease) -> SlotWorker:
        self.deliveries.append(Delivered())
        self.workers.append(worker(self.table, self.deliveries[-1], lease))
        return self.workers[-1]

    async def close(self) -> None:
        self.stop.set()
        await self.task


async def test_a_lost_lease_ends_its_worker_and_a_regained_one_gets_a_new_worker() -> None:
    office = Office()
    await eventually(lambda: len(office.workers) == 1)
    assert await office.keeper.problem() is None
    office.leases.held = frozenset()
    await eventually(lambda: not office.keeper.owned())
    assert not office.workers[0].lease.allows()
    office.leases.held = frozenset({SLOT})
    await eventually(lambda: len(office.workers) == 2)
    await office.close()
    assert office.leases.log == ["release", "leave"]


async def test_without_the_lease_database_a_worker_ends_on_its_own_clock() -> None:
    office = Office()
    await eventually(lambda: len(office.workers) == 1)
    office.leases.error = StoreUnavailable("store_unavailable", "away")
    await eventually(office.keeper.problem)
    office.now = 2_400.0
    assert office.workers[0].lease.allows()
    office.now = 2_501.0
    assert not office.workers[0].lease.allows()
    await eventually(lambda: "abandon" in office.deliveries[0].log)
    office.leases.error = None
    await eventually(lambda: len(office.workers) == 2)
    await office.close()


async def test_what_another_replica_relays_now_is_no_backlog_of_this_one() -> None:
    registry, held = CollectorRegistry(), [SLOT]

    class Counted:
        async def backlog(self, shards: Sequence[int]) -> Backlog:
            return Backlog(len(shards), 5_000.0, 1)

    table = cast("OutboxTable", Counted())
    watch = BacklogWatch({SLOT.outbox: table}, lambda: held, RelayEvents(registry))
    names = ("waiting_rows", "oldest_row_seconds", "parked_keys")

    def told() -> list[float | None]:
        labels = {"outbox": SLOT.outbox}
        return [registry.get_sample_value(f"sagabus_relay_{name}", labels) for name in names]

    await watch.look()
    assert told() == [64, 5, 1]
    held.clear()
    await watch.look()
    assert told() == [0, 0, 0]
