"""The rules of a consumer, without Kafka: outages are waited out, poison is set aside."""

from collections.abc import Callable, Sequence

import pytest

from sagabus_bus import (
    BatchWorker,
    BusUnavailable,
    ConsumerEvents,
    Reason,
    WorkerOptions,
    WorkInterrupted,
)
from sagabus_core.errors import InvalidValue, SagabusError
from sagabus_messages.record import Record
from sagabus_runtime.backoff import BackOffPolicy


class FakePulse:
    """Waits for nothing, and stops when told to."""

    def __init__(self, stop_after: int = 10**6) -> None:
        self.stopping = False
        self.waits: list[float] = []
        self.trouble: str | None = None
        self.excuses: list[str] = []
        self._stop_after = stop_after

    def beat(self) -> None:
        self.trouble = None

    def excuse(self, trouble: str) -> None:
        self.trouble = trouble
        self.excuses.append(trouble)

    async def pause(self, ms: float) -> bool:
        self.waits.append(ms)
        self.stopping = len(self.waits) >= self._stop_after
        return self.stopping


class Handler:
    """Keeps what is durable; `fault` may refuse a slice, `letter_fault` a dead letter."""

    def __init__(
        self,
        fault: Callable[[Sequence[Record]], Exception | None] = lambda _: None,
        letter_faults: Sequence[Exception] = (),
    ) -> None:
        self.durable: list[int] = []
        self.letters: list[tuple[int, str, int]] = []
        self.calls = 0
        self._fault = fault
        self._letter_faults = list(letter_faults)

    async def process(self, records: Sequence[Record]) -> None:
        self.calls += 1
        error = self._fault(records)
        if error is not None:
            raise error
        self.durable += [record.offset for record in records]

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None:
        if self._letter_faults:
            raise self._letter_faults.pop(0)
        self.letters.append((record.offset, reason.code, attempts))


def batch(count: int, keys: int = 1000) -> list[Record]:
    return [Record("t", 0, n, b"%d" % (n % keys), b"", (), 0) for n in range(count)]


def worker(handler: Handler, **options: int) -> BatchWorker:
    quick = BackOffPolicy(10, 80)
    return BatchWorker(
        handler,
        ConsumerEvents("g"),
        WorkerOptions(outage=quick, suspicion=quick, **options),
    )


def refuse(bad: set[int], error: Exception) -> Callable[[Sequence[Record]], Exception | None]:
    return lambda records: error if bad & {record.offset for record in records} else None


def fail_times(count: int, error: Exception) -> Callable[[Sequence[Record]], Exception | None]:
    left = [count]

    def fault(_: Sequence[Record]) -> Exception | None:
        left[0] -= 1
        return error if left[0] >= 0 else None

    return fault


async def test_poison_is_set_aside_and_blocks_nothing() -> None:
    handler, pulse = Handler(refuse({42}, InvalidValue("unknown_step", "no"))), FakePulse()
    await worker(handler).work(batch(100), pulse)
    assert sorted(handler.durable) == [n for n in range(100) if n != 42]
    assert [(offset, code) for offset, code, _ in handler.letters] == [(42, "unknown_step")]
    assert pulse.waits == []


async def test_an_operator_is_told_why_records_are_held() -> None:
    full = BusUnavailable("store_unavailable", "SQLSTATE 53100: No space left on device")
    pulse = FakePulse()
    await worker(Handler(fail_times(1, full))).work(batch(3), pulse)
    assert pulse.excuses == [f"holding 3 records: {full}"]


async def test_order_per_key_is_kept_while_splitting() -> None:
    handler = Handler(refuse({5, 17}, InvalidValue("bad", "no")))
    await worker(handler).work(batch(30, keys=3), FakePulse())
    for key in range(3):
        mine = [n for n in handler.durable if n % 3 == key]
        assert mine == sorted(mine)
    assert len(handler.durable) == 28


@pytest.mark.parametrize(
    "outage",
    [BusUnavailable("bus_unavailable", "x"), OSError(5, "x"), TimeoutError(), MemoryError()],
    ids=lambda error: type(error).__name__,
)
async def test_an_outage_is_waited_out_with_growing_waits(outage: Exception) -> None:
    handler, pulse = Handler(fail_times(6, outage)), FakePulse()
    await worker(handler).work(batch(20), pulse)
    assert handler.durable == list(range(20))
    assert handler.letters == []
    assert len(pulse.waits) == 6
    assert 40 <= max(pulse.waits) <= 80, "bounded, with jitter"
    assert pulse.waits[0] <= 10
    assert "holding 20 records" in pulse.excuses[0]
    assert pulse.trouble is None


async def test_an_outage_in_the_middle_of_a_search_spends_no_poison_budget() -> None:
    calls = [0]

    def fault(records: Sequence[Record]) -> Exception | None:
        calls[0] += 1
        if calls[0] in {2, 3, 5}:
            return OSError("the database is away")
        return refuse({3}, InvalidValue("bad", "no"))(records)

    handler = Handler(fault)
    await worker(handler).work(batch(8), FakePulse())
    assert [letter[0] for letter in handler.letters] == [3]
    assert sorted(handler.durable) == [n for n in range(8) if n != 3], "each went through once"


async def test_asked_to_stop_in_an_outage_nothing_is_settled() -> None:
    handler = Handler(fail_times(10**6, OSError("away")))
    with pytest.raises(WorkInterrupted):
        await worker(handler).work(batch(3), FakePulse(stop_after=4))
    assert (handler.durable, handler.letters) == ([], [])


async def test_what_a_rebalance_took_is_let_go_after_a_wait() -> None:
    handler, pulse = Handler(fail_times(1, OSError("away"))), FakePulse()
    await worker(handler).work(batch(10), pulse, owns=lambda record: record.offset % 2 == 0)
    assert handler.durable == [0, 2, 4, 6, 8]


async def test_a_dead_letter_that_cannot_be_written_is_waited_for() -> None:
    faults = [OSError("away"), ValueError("a bug in the writer"), OSError("away")]
    handler, pulse = Handler(refuse({0}, InvalidValue("bad", "no")), faults), FakePulse()
    await worker(handler).work(batch(2), pulse)
    assert (handler.durable, [letter[0] for letter in handler.letters]) == ([1], [0])
    assert len(pulse.waits) == 3


async def test_a_programming_error_in_every_record_is_thought_over_first() -> None:
    handler, pulse = Handler(fail_times(70, KeyError("step"))), FakePulse()
    await worker(handler).work(batch(20), pulse)
    assert handler.letters == [], "the bug went away in time"
    assert sorted(handler.durable) == list(range(20))
    assert "unexpected_error" in pulse.excuses[0]


async def test_a_programming_error_that_stays_does_not_block_for_ever() -> None:
    handler, pulse = Handler(fail_times(10**6, KeyError("step"))), FakePulse()
    await worker(handler, second_thoughts=2).work(batch(20), pulse)
    assert len(pulse.waits) == 2
    assert [letter[:2] for letter in handler.letters] == [
        (n, "unexpected_error") for n in range(20)
    ]


async def test_many_bad_records_with_a_verdict_are_set_aside_at_once() -> None:
    handler, pulse = Handler(fail_times(10**6, InvalidValue("bad", "no"))), FakePulse()
    await worker(handler).work(batch(20), pulse)
    assert (len(handler.letters), pulse.waits) == (20, [])


async def test_a_verdict_that_is_not_retryable_is_poison_whatever_its_package() -> None:
    class Refused(SagabusError):
        pass

    handler = Handler(refuse({0}, Refused("definition_inactive", "no")))
    await worker(handler).work(batch(1), FakePulse())
    assert handler.letters == [(0, "definition_inactive", 1)]
