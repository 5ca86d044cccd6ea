"""Which lifecycle event answers which start."""

from typing import Literal

from sagabus_client import SagaHandle
from sagabus_client.watching import WatchTable
from sagabus_core import ids
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import Lifecycle, Record, Stamp, Topics, decode, encode, source_of
from sagabus_messages.codec import Envelope

TOPICS = Topics("t.")
SOURCE = source_of("shop")
SAGA = ids.saga_id("default", "order", "K")


def handle(start_id: str) -> SagaHandle:
    return SagaHandle(SAGA, "default", "order", "K", start_id, 1_000)


def heard(
    status: SagaStatus | Literal["START_REFUSED"],
    start_id: str,
    revision: int | None,
    answered: str | None = None,
) -> Envelope:
    body = Lifecycle(
        saga_id=SAGA,
        tenant="default",
        workflow="order",
        business_key="K",
        status=status,
        start_id=start_id,
        revision=revision,
        reason_code="request_conflict" if status == "START_REFUSED" else None,
        occurred_at_ms=2_000,
    )
    row = encode(
        body, TOPICS.lifecycle, Stamp(source_of("orchestrator"), 2_000), start_source=answered
    )
    return decode(Record(row.topic, 0, 0, row.key, row.value, row.headers, 0), TOPICS)


def test_a_saga_is_followed_to_its_end() -> None:
    table = WatchTable(SOURCE)
    watch = table.add(handle("s1"))

    table.take(heard(SagaStatus.RUNNING, "s1", 1))
    table.take(heard(SagaStatus.COMPLETED, "s1", 5))

    assert watch.settled is not None
    assert watch.settled.status is SagaStatus.COMPLETED


def test_another_start_of_the_same_key_is_not_taken_for_ours() -> None:
    table = WatchTable(SOURCE)
    watch = table.add(handle("ours"))

    table.take(heard(SagaStatus.COMPLETED, "theirs", 5))
    table.take(heard("START_REFUSED", "ours", None, answered=source_of("somebody")))
    assert not table.take(heard(SagaStatus.COMPLETED, "theirs", 6))
    table.take(heard("START_REFUSED", "ours", None, answered=SOURCE))

    assert watch.settled is not None
    assert (watch.settled.is_refused, watch.settled.reason_code) == (True, "request_conflict")


def test_the_answer_to_a_repeat_tells_the_present_status() -> None:
    table = WatchTable(SOURCE)
    watch = table.add(handle("again"))

    table.take(heard(SagaStatus.RUNNING, "again", 3, answered=SOURCE))
    table.take(heard(SagaStatus.COMPENSATED, "first", 7))

    assert watch.settled is not None
    assert watch.settled.status is SagaStatus.COMPENSATED


def test_what_the_relay_repeats_changes_nothing() -> None:
    table = WatchTable(SOURCE)
    watch = table.add(handle("s1"))
    table.take(heard(SagaStatus.COMPLETED, "s1", 5))

    assert table.take(heard(SagaStatus.RUNNING, "s1", 1)) == []
    assert watch.settled is not None


def test_a_saga_that_needs_a_person_is_settled_until_it_goes_on() -> None:
    table = WatchTable(SOURCE)
    watch = table.add(handle("s1"))

    table.take(heard(SagaStatus.MANUAL_INTERVENTION, "s1", 4))
    waiting = watch.settled
    table.take(heard(SagaStatus.RUNNING, "s1", 5))

    assert waiting is not None
    assert waiting.needs_person
    assert watch.settled is None
