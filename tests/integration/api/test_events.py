"""Changes of status as server-sent events: none skipped, in order, resumable, ended in time."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.integration.orchestrator.support import Rig, commands

from sagabus_core.vocabulary import ResultStatus
from sagabus_orchestrator.api.feed import Change, Feed, Followed, Position
from sagabus_orchestrator.api.identity import IdentityUnavailable, Principal, Unauthenticated
from sagabus_orchestrator.api.standing import Standing
from sagabus_runtime import Pulse
from sagabus_testkit import eventually

from .support import PEOPLE, Api, problem


@dataclass
class Reader:
    """Reads a stream in the background."""

    feed: Feed
    followed: Followed
    behind: int | None
    seen: list[Change]
    positions: list[int]
    task: asyncio.Task[None] | None = None

    async def read(self) -> None:
        async for event in self.feed.follow(self.followed, self.behind, 60):
            if isinstance(event, Position):
                self.positions.append(event.seq)
            else:
                self.seen.append(event)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(change.business_key, change.status.value) for change in self.seen]


@asynccontextmanager
async def reading(
    api: Api, followed: Followed | None = None, behind: int | None = None
) -> AsyncIterator[Reader]:
    reader = Reader(api.backend.feed, followed or Followed(), behind, [], [])
    reader.task = asyncio.create_task(reader.read())
    await eventually(lambda: bool(reader.positions))
    yield reader
    reader.task.cancel()
    await asyncio.gather(reader.task, return_exceptions=True)


async def finish(rig: Rig, *keys: str) -> None:
    """Answer every command of started orders with success."""
    todo = [c for c in commands(await rig.read_outbox()) if c.business_key in keys]
    while todo:
        todo = commands(await rig.process(*(rig.result_record(command) for command in todo)))


async def test_one_saga_from_its_start_to_its_end(api: Api) -> None:
    await api.start()
    async with reading(api, Followed(api.rig.saga("ORD-1")), 0) as reader:
        await finish(api.rig, "ORD-1")
        await eventually(lambda: reader.told == [("ORD-1", "RUNNING"), ("ORD-1", "COMPLETED")])
    assert [change.revision for change in reader.seen] == sorted(
        change.revision for change in reader.seen
    )
    assert reader.seen[0].before is None
    assert reader.seen[-1].journal_head


async def test_a_stream_of_all_begins_now(api: Api) -> None:
    await api.start("OLD")
    async with reading(api) as reader:
        await api.start("NEW")
        await eventually(lambda: reader.told == [("NEW", "RUNNING")])


async def test_a_stream_holds_what_fits_alone(api: Api) -> None:
    wanted = Followed(tenants=["acme"])
    async with reading(api, wanted) as reader:
        await api.start("A")
        await api.start("B", tenant="globex")
        await api.start("C")
        await eventually(lambda: len(reader.seen) == 2)
    assert [change.business_key for change in reader.seen] == ["A", "C"]


async def test_a_resumed_stream_has_everything_once(api: Api) -> None:
    keys = [f"ORD-{n}" for n in range(6)]
    async with reading(api) as first:
        for key in keys[:2]:
            await api.start(key)
        await eventually(lambda: len(first.seen) == 2)
    for key in keys[2:4]:
        await api.start(key)
    async with reading(api, behind=first.seen[-1].seq) as second:
        for key in keys[4:]:
            await api.start(key)
        await eventually(lambda: len(second.seen) == 4)
    assert [change.business_key for change in (*first.seen, *second.seen)] == keys


async def test_trap_20_a_change_that_commits_late_is_not_skipped(api: Api) -> None:
    async with reading(api) as reader:
        async with api.rig.database.transaction() as conn:
            await conn.execute(
                "insert into journal (saga_id, revision, ordinal, fact, head, recorded_at)"
                " values (gen_random_uuid(), 1, 0, '{}', '', clock_timestamp())"
            )
            # Numbered behind the row above and committed before it.
            await api.start("FAST")
            await api.rig.run(
                "insert into saga_key (id, definition_scope, definition_version,"
                " definition_digest, request_digest, field_digests)"
                " values (gen_random_uuid(), '', 1, '', '', '')"
            )
            looks = len(reader.positions)
            await eventually(lambda: len(reader.positions) >= looks + 2)
            assert reader.seen == [], "served before an older transaction has ended"
        await eventually(lambda: reader.told == [("FAST", "RUNNING")])
    await api.rig.run("delete from journal where fact = '{}'")


async def test_a_reader_that_does_not_keep_up_is_ended_and_resumes(api: Api) -> None:
    feed = api.backend.feed
    stream = feed.follow(Followed(), None, 60)
    position = await anext(stream)
    assert isinstance(position, Position)
    (listener,) = feed._listeners
    listener.MOST = 2  # type: ignore[misc]  # smaller than any test's journal
    for number in range(4):
        await api.start(f"ORD-{number}")
    await eventually(listener.has_ended)
    rest = [event async for event in stream]
    assert rest == []
    async with reading(api, behind=position.seq) as reader:
        await eventually(lambda: len(reader.seen) == 4)


async def test_a_stream_ends_with_its_replica(api: Api) -> None:
    async with reading(api) as reader:
        api.backend.stopping.set()
        assert reader.task is not None
        await asyncio.wait_for(reader.task, 30)


async def test_nobody_looks_while_nobody_listens(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    feed, stopping = Feed(rig.database), asyncio.Event()
    looks: list[int] = []
    look = feed.look

    async def counted() -> None:
        looks.append(1)
        await look()

    monkeypatch.setattr(feed, "look", counted)
    pulse = Pulse("feed", 60_000, stopping)
    task = asyncio.create_task(feed.run(pulse))
    await asyncio.wait({task}, timeout=0.3)
    assert looks == []
    stopping.set()
    await task


async def body_of(api: Api, path: str, **headers: str) -> list[dict[str, Any]]:
    """Return the events of a stream that ends with the saga's replica."""
    sent = {"x-api-key": "admin", **headers}
    task = asyncio.create_task(api.client.get(f"/v1{path}", headers=sent))
    await eventually(lambda: bool(api.backend.feed._listeners))
    api.backend.stopping.set()
    text = (await task).text
    events = [dict(line.split(": ", 1) for line in e.splitlines()) for e in text.split("\n\n") if e]
    return [{**event, "data": json.loads(event.get("data", "null"))} for event in events]


async def test_the_wire_form(api: Api) -> None:
    await api.start()
    saga = api.rig.saga("ORD-1")
    started, position = await body_of(api, f"/sagas/{saga}/events")
    assert (started["event"], started["data"]["saga_id"]) == ("status", saga)
    assert started["data"]["status"] == "RUNNING"
    assert int(position["id"]) >= int(started["id"])
    assert position["data"] is None


async def test_streams_ask_for_permission_and_tenant(api: Api) -> None:
    await api.start()
    saga = api.rig.saga("ORD-1")
    assert problem(await api.get(f"/sagas/{saga}/events", who="globex")) == (404, "not_found")
    assert problem(await api.get("/events", who="starter")) == (403, "permission_denied")


async def test_a_stream_ends_for_whoever_loses_the_right_to_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Revoked, or with other rights than before; an outage of whoever knows ends nothing."""
    monkeypatch.setattr(Standing, "EVERY_S", 0.0)
    people: dict[str, Principal | Exception] = {**PEOPLE}
    asked: Counter[str | None] = Counter()

    async def authenticate(authorization: str | None, api_key: str | None) -> Principal:
        asked[api_key] += 1
        found = people.get(api_key or "", Unauthenticated("key_invalid", "-"))
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(api.backend.authenticator, "authenticate", authenticate)
    streams = {
        who: asyncio.create_task(api.client.get("/v1/events", headers={"x-api-key": who}))
        for who in ("admin", "acme", "viewer")
    }
    await eventually(lambda: len(api.backend.feed._listeners) == len(streams))
    people["viewer"] = IdentityUnavailable("identity_unavailable", "-")
    del people["acme"]
    people["admin"] = PEOPLE["globex"]
    for who in ("acme", "admin"):
        assert (await asyncio.wait_for(streams[who], 30)).status_code == 200
    before = asked["viewer"]
    await eventually(lambda: asked["viewer"] > before + 1)
    assert not streams["viewer"].done()
    api.backend.stopping.set()
    assert (await streams["viewer"]).status_code == 200


async def test_an_id_whose_successors_are_gone_is_refused(api: Api) -> None:
    await api.start()
    await api.rig.run("delete from journal")
    await api.start("ORD-2")
    gone = await api.client.get("/v1/events", headers={"x-api-key": "admin", "last-event-id": "1"})
    assert problem(gone) == (410, "events_gone")


async def test_statuses_restrict_a_stream(api: Api) -> None:
    from sagabus_core.vocabulary import SagaStatus  # noqa: PLC0415

    wanted = Followed(statuses=frozenset({SagaStatus.MANUAL_INTERVENTION}))
    async with reading(api, wanted) as reader:
        await api.start()
        (command,) = commands(await api.rig.read_outbox())
        await api.rig.process(api.rig.result_record(command, ResultStatus.HALTED))
        await eventually(lambda: reader.told == [("ORD-1", "MANUAL_INTERVENTION")])
