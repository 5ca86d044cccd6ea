"""The relay's planning core: given rows and outcomes, when a round ends, then what is written."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from sagabus_relay.plan import (
    TOO_LARGE,
    Blocked,
    Limits,
    Outcome,
    Refused,
    Row,
    Sent,
    Settlement,
    TopicClosed,
    Unsent,
    plan,
    settle,
)

WRITTEN_AT = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = Limits(rows=4, batch_bytes=10_000, record_bytes=1_000)
REFUSED = Refused("invalid_record", "no")


def row(number: int, key: str = "a", topic: str = "t", size: int = 10) -> Row:
    return Row(number, 0, topic, key.encode(), b"", b"x" * size, WRITTEN_AT)


def test_rows_are_sent_in_id_order_up_to_the_row_limit() -> None:
    rows = [row(n) for n in range(6)]
    assert [r.id for r in plan(rows, LIMITS, ()).send] == [0, 1, 2, 3]


def test_the_byte_limit_ends_a_round_but_never_before_the_first_row() -> None:
    rows = [row(1, size=900), row(2, size=900)]
    round_ = plan(rows, replace(LIMITS, batch_bytes=1_000), ())
    assert [r.id for r in round_.send] == [1]
    assert [r.id for r in plan(rows, replace(LIMITS, batch_bytes=1), ()).send] == [1]


def test_a_row_that_is_too_large_parks_its_key_and_its_followers_follow() -> None:
    rows = [row(1, "a"), row(2, "b", size=2_000), row(3, "b"), row(4, "c")]
    round_ = plan(rows, LIMITS, ())
    assert [r.id for r in round_.send] == [1, 4]
    assert [(p.row.id, p.reason) for p in round_.park] == [(2, TOO_LARGE)]
    assert [r.id for r in round_.follow] == [3]


def test_the_same_key_on_another_topic_is_another_order() -> None:
    rows = [row(1, "a", size=2_000), row(2, "a", topic="u")]
    assert [r.id for r in plan(rows, LIMITS, ()).send] == [2]


def test_rows_of_a_parked_key_follow() -> None:
    rows = [row(1)._replace(parked=True), row(2, "b")]
    round_ = plan(rows, LIMITS, ())
    assert ([r.id for r in round_.follow], [r.id for r in round_.send]) == ([1], [2])


def test_a_held_topic_stays_where_it_is() -> None:
    round_ = plan([row(1), row(2, topic="held")], LIMITS, {"held"})
    assert [r.id for r in round_.send] == [1]
    assert not round_.follow
    assert not round_.park


def run(outcomes: list[Outcome]) -> Settlement:
    rows = [row(n, str(n)) for n in range(len(outcomes))]
    return settle(plan(rows, LIMITS, ()), outcomes)


def test_delivered_rows_are_deleted_and_unsent_ones_stay() -> None:
    result = run([Sent(), Unsent(), Sent()])
    assert [r.id for r in result.delete] == [0, 2]
    assert not result.moves


def test_a_refused_record_parks_its_key_and_blocked_ones_follow() -> None:
    result = run([Sent(), REFUSED, Blocked()])
    assert [(p.row.id, p.reason) for p in result.park] == [(1, "invalid_record")]
    assert [r.id for r in result.follow] == [2]


def test_a_closed_topic_is_named_and_parks_nothing() -> None:
    result = run([TopicClosed("missing"), TopicClosed("missing")])
    assert result.closed_topics == {"t"}
    assert not result.moves
    assert run([Sent()]).open_topics == {"t"}


def test_an_oversized_row_is_not_parked_while_an_older_row_of_its_key_is_unsent() -> None:
    round_ = plan([row(1), row(2, size=2_000), row(3)], LIMITS, ())
    assert not settle(round_, [Unsent()]).moves
    late = settle(round_, [Sent()])
    assert [p.row.id for p in late.park] == [2]
    assert [r.id for r in late.follow] == [3]


KEYS = st.sampled_from("abc")
FATES = st.sampled_from(["good", "bad", "large"])


@given(
    st.lists(st.tuples(KEYS, FATES), min_size=1, max_size=40),
    st.integers(1, 8),
    st.lists(st.booleans(), min_size=20, max_size=20),
)
def test_whatever_happens_every_row_ends_once_and_every_key_keeps_its_order(
    shape: list[tuple[str, str]], limit: int, outages: list[bool]
) -> None:
    table = OutboxTwin(
        [(row(n, k, size=2_000 if f == "large" else 10), f) for n, (k, f) in enumerate(shape)]
    )
    for outage in [*outages, *[False] * 80]:
        table.turn(replace(LIMITS, rows=limit), outage)
    assert not table.hot
    for key in "abc":
        fates = [fate for k, fate in shape if k == key]
        good = next((n for n, fate in enumerate(fates) if fate != "good"), len(fates))
        assert len(table.sent_of(key)) == good, "all before the first bad one, none after it"
        order = table.sent_of(key) + table.parked_of(key)
        assert order == sorted(order)
        assert len(set(order)) == len(fates)


class OutboxTwin:
    """A slot in memory: hot rows, parked rows, what was sent."""

    def __init__(self, rows: list[tuple[Row, str]]) -> None:
        self.fates = {r.id: fate for r, fate in rows}
        self.hot = [r for r, _ in rows]
        self.sent: list[Row] = []
        self.parked: list[Row] = []

    def turn(self, limits: Limits, outage: bool) -> None:
        keys = {r.order_key for r in self.parked}
        round_ = plan([r._replace(parked=r.order_key in keys) for r in self.hot], limits, ())
        done = settle(round_, self.publish(round_.send, outage))
        self.sent += done.delete
        self.parked += [*(p.row for p in done.park), *done.follow]
        gone = {r.id for r in (*self.sent, *self.parked)}
        self.hot = [r for r in self.hot if r.id not in gone]

    def publish(self, rows: tuple[Row, ...], outage: bool) -> list[Outcome]:
        if outage:
            return [Unsent() for _ in rows]
        outcomes: list[Outcome] = []
        refused: set[object] = set()
        for r in rows:
            if r.order_key in refused:
                outcomes.append(Blocked())
            elif self.fates[r.id] == "bad":
                refused.add(r.order_key)
                outcomes.append(REFUSED)
            else:
                outcomes.append(Sent())
        return outcomes

    def sent_of(self, key: str) -> list[int]:
        return [r.id for r in self.sent if r.key == key.encode()]

    def parked_of(self, key: str) -> list[int]:
        return sorted(r.id for r in self.parked if r.key == key.encode())
