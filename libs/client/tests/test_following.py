"""Events as they come off the wire, and how long an outage is borne."""

from collections.abc import AsyncIterator

import pytest

from sagabus_client.errors import ApiUnreachable
from sagabus_client.following import Followed, Patience, ServerEvent, read_events
from sagabus_core.vocabulary import SagaStatus

DATA = (
    b'{"saga_id":"s","tenant":"acme","workflow":"order","business_key":"A\xe2\x80\xa8B",'
    b'"revision":2,"before":"RUNNING","status":"COMPLETED","reason":null,"journal_head":"00",'
    b'"recorded_at":"2026-01-31T12:00:00.000Z","added_later":1}'
)


async def events(*chunks: bytes) -> list[ServerEvent]:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [event async for event in read_events(stream())]


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_events_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    text = b"id: 7\n\n: a comment\n\nid: 9\r\nevent: status\r\ndata: " + DATA + b"\r\n\r\n"
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    position, _, change = await events(*chunks)
    assert (position.id, position.change()) == (7, None)
    found = change.change()
    assert found is not None
    assert (found.event_id, found.business_key, found.revision) == (9, "A\u2028B", 2)
    assert (found.before, found.status) == (SagaStatus.RUNNING, SagaStatus.COMPLETED)
    assert found.recorded_at_ms == 1_769_860_800_000


async def test_half_an_event_is_none() -> None:
    assert await events(b"id: 7\n\nid: 8\ndata: {") == [ServerEvent(7, None)]


def test_what_is_followed_is_asked_for() -> None:
    everything = Followed("acme", "order", [SagaStatus.COMPLETED])
    assert everything.path == "/v1/events"
    assert everything.params == {"tenant": "acme", "workflow": "order", "status": ["COMPLETED"]}
    one = Followed(saga_id="s")
    assert (one.path, one.params) == ("/v1/sagas/s/events", {})


def test_patience_waits_longer_each_time_and_ends() -> None:
    patience, now, pauses = Patience(20.0), 100.0, []
    while (pause := patience.pause_after(now)) is not None:
        pauses.append(pause)
        now += pause
    assert pauses[:4] == [0.2, 0.4, 0.8, 1.6]
    assert max(pauses) == 5.0
    assert sum(pauses) == pytest.approx(20.0)
    error = patience.gave_up(ApiUnreachable("api_unreachable", "away"))
    assert "gave up after 20 s" in error.detail


def test_an_answer_renews_patience() -> None:
    patience = Patience(1.0)
    assert patience.pause_after(0.0) == 0.2
    patience.answered()
    assert patience.pause_after(50.0) == 0.2
    assert patience.pause_after(51.0) is None
