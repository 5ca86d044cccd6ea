"""Order per key, and the search for a refused record, without Kafka."""

from hypothesis import given
from hypothesis import strategies as st

from sagabus_bus import Blocked, Outcome, Published, RecordRefused, Refused, partition_of
from sagabus_bus.lanes import Voyage
from sagabus_messages.record import OutboxRow


def row(key: bytes | None, value: bytes = b"v") -> OutboxRow:
    return OutboxRow("t", key, (), value)


def carry(rows: list[OutboxRow], bad: set[int], max_bytes: int) -> tuple[list[int], list[Outcome]]:
    """Play a broker that refuses every batch with a bad row in it; return its log and outcomes."""
    voyage, log = Voyage(rows), list[int]()
    for number, one in voyage.numbered():
        voyage.load(number, ("t", partition_of(one.key, 2)))
    while wave := voyage.next_wave(max_bytes):
        for place, batch in wave.items():
            if bad & {number for number, _ in batch}:
                voyage.refused(place, batch, RecordRefused("record_too_large", "no"))
            else:
                voyage.published(place, batch, len(log))
                log += [number for number, _ in batch]
    return log, voyage.outcomes


def test_partitions_are_those_of_the_java_client() -> None:
    # From Kafka's own UtilsTest.testMurmur2.
    for key, hashed in {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107}.items():
        assert partition_of(key, 1000) == (hashed & 0x7FFFFFFF) % 1000


def test_a_lane_has_one_batch_in_flight_within_the_limit() -> None:
    voyage = Voyage([row(b"k", b"x" * 100) for _ in range(10)])
    for number in range(10):
        voyage.load(number, ("t", 0))
    (batch,) = voyage.next_wave(400).values()
    assert [number for number, _ in batch] == [0, 1]


def test_a_row_above_the_limit_goes_alone() -> None:
    voyage = Voyage([row(b"k", b"x" * 1000), row(b"k")])
    voyage.load(0, ("t", 0))
    voyage.load(1, ("t", 0))
    assert [len(batch) for batch in voyage.next_wave(100).values()] == [1]


@given(
    keys=st.lists(st.sampled_from([b"a", b"b", b"c", b"d", None]), min_size=1, max_size=30),
    max_bytes=st.integers(60, 2000),
    data=st.data(),
)
def test_the_first_refused_of_a_key_parks_its_followers_and_nobody_else(
    keys: list[bytes | None], max_bytes: int, data: st.DataObject
) -> None:
    bad = data.draw(st.sets(st.integers(0, len(keys) - 1)))
    log, outcomes = carry([row(key) for key in keys], bad, max_bytes)
    assert len(outcomes) == len(keys)
    for key in set(keys):
        mine = [n for n, other in enumerate(keys) if other == key]
        first_bad = min((n for n in mine if n in bad), default=len(keys))
        assert [n for n in log if n in mine] == [n for n in mine if n < first_bad]
        for number in mine:
            match outcomes[number]:
                case Published():
                    assert number < first_bad
                case Refused():
                    assert number == first_bad
                case Blocked():
                    assert number > first_bad
                case other:
                    raise AssertionError(other)
