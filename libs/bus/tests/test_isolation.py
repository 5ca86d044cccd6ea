"""The splitting core: poison stands alone, the rest goes through once and in order."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagabus_bus import Poison, isolate
from sagabus_messages.record import Record


class Refusal(Exception):
    pass


def record(offset: int, key: bytes | None = b"saga") -> Record:
    return Record("orders", 0, offset, key, b"{}", (), 0)


def drive(records: Sequence[Record], bad: set[int]) -> tuple[list[Poison], list[list[int]]]:
    """Run a search against a handler that refuses every slice with a bad offset in it."""
    search = isolate(records)
    attempts: list[list[int]] = []
    error: Exception | None = None
    try:
        part = next(search)
        while True:
            attempts.append([r.offset for r in part])
            error = Refusal() if bad & set(attempts[-1]) else None
            part = search.send(error)
    except StopIteration as found:
        return found.value, attempts


def gone_through(attempts: list[list[int]], bad: set[int]) -> list[int]:
    return [offset for attempt in attempts if not bad & set(attempt) for offset in attempt]


def test_a_healthy_batch_is_attempted_once() -> None:
    records = [record(n, b"%d" % (n % 7)) for n in range(100)]
    assert drive(records, set()) == ([], [list(range(100))])


def test_an_empty_batch_is_not_attempted() -> None:
    assert drive([], set()) == ([], [])


def test_a_single_bad_record_stands_alone_after_one_attempt() -> None:
    poison, attempts = drive([record(7)], {7})
    assert [(p.record.offset, p.attempts) for p in poison] == [(7, 1)]
    assert attempts == [[7]]


def test_one_poison_among_a_hundred_sagas_costs_few_attempts() -> None:
    records = [record(n, b"%d" % n) for n in range(100)]
    poison, attempts = drive(records, {42})
    assert [p.record.offset for p in poison] == [42]
    assert len(attempts) <= 16
    assert sorted(gone_through(attempts, {42})) == [n for n in range(100) if n != 42]


def test_sagas_are_separated_before_records() -> None:
    records = [record(n, b"ab"[n % 2 : n % 2 + 1]) for n in range(6)]
    _, attempts = drive(records, {2})
    assert attempts[1] == [0, 2, 4], "the first split is between keys"
    assert attempts[-1] == [1, 3, 5], "the other saga goes through in one piece"


def test_a_batch_that_only_fails_as_a_whole_has_no_poison() -> None:
    records = [record(n, b"%d" % n) for n in range(8)]
    search = isolate(records)
    assert len(next(search)) == 8
    first, second = search.send(RuntimeError("only when together")), search.send(None)
    assert (len(first), len(second)) == (4, 4)
    with pytest.raises(StopIteration) as end:
        search.send(None)
    assert end.value.value == []


@given(
    keys=st.lists(st.sampled_from([b"a", b"b", b"c", b"d", None]), min_size=1, max_size=40),
    data=st.data(),
)
def test_everything_is_settled_exactly_once_and_in_order_per_key(
    keys: list[bytes | None], data: st.DataObject
) -> None:
    records = [record(n, key) for n, key in enumerate(keys)]
    bad = data.draw(st.sets(st.integers(0, len(keys) - 1)))
    poison, attempts = drive(records, bad)
    passed = gone_through(attempts, bad)
    assert [p.record.offset for p in poison] == sorted(bad)
    assert sorted(passed) == [n for n in range(len(keys)) if n not in bad]
    for key in (b"a", b"b", b"c", b"d"):
        of_key = [offset for offset in passed if keys[offset] == key]
        assert of_key == sorted(of_key)
    assert all(attempt == sorted(attempt) for attempt in attempts)
    assert len(attempts) <= 2 * len(keys)
