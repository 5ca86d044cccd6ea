"""Reading over HTTP: what is whose, pages that hold, waits that wake, evidence byte for byte."""

import asyncio
import hashlib
import json
from typing import Any

import pytest
from tests.integration.orchestrator.support import Rig, commands

from sagabus_core.vocabulary import ResultStatus
from sagabus_orchestrator.api.waiting import StatusWatch
from sagabus_testkit import eventually

from .support import Api, problem


async def run_to_the_end(rig: Rig, key: str = "ORD-1") -> None:
    """Answer every command of a started order with success."""
    todo = [c for c in commands(await rig.read_outbox()) if c.business_key == key]
    while todo:
        records = [rig.result_record(command) for command in todo]
        todo = commands(await rig.process(*records))


async def test_one_saga_with_what_decisions_rest_on(api: Api) -> None:
    await api.start()
    body = (await api.get(f"/sagas/{api.rig.saga('ORD-1')}")).json()
    assert (body["status"], body["control"], body["revision"]) == ("RUNNING", "ACTIVE", 1)
    assert body["variables"] == {"sku": "widget"}
    assert [step["activation"] for step in body["steps"]] == ["reserve"]
    assert body["archived_at"] is None


@pytest.mark.parametrize(
    "place", ["", "/outcome", "/plan", "/why", "/journal"], ids=lambda place: place or "saga"
)
async def test_a_saga_of_another_tenant_looks_absent(api: Api, place: str) -> None:
    await api.start()
    there, nowhere = api.rig.saga("ORD-1"), api.rig.saga("ORD-2")
    assert (await api.get(f"/sagas/{there}{place}", who="acme")).status_code == 200
    theirs = await api.get(f"/sagas/{there}{place}", who="globex")
    absent = await api.get(f"/sagas/{nowhere}{place}", who="globex")
    assert problem(theirs) == problem(absent) == (404, "not_found")
    said = [
        each.json()["detail"].replace(saga, "")
        for each, saga in ((theirs, there), (absent, nowhere))
    ]
    assert said[0] == said[1]


async def test_permission_comes_before_existence(api: Api) -> None:
    nowhere = api.rig.saga("ORD-2")
    assert problem(await api.get(f"/sagas/{nowhere}/journal", who="starter")) == (
        403,
        "permission_denied",
    )
    assert problem(await api.get(f"/sagas/{nowhere}", who="nobody")) == (401, "credentials_missing")


async def test_a_saga_is_found_by_its_business_key(api: Api) -> None:
    await api.start()
    found = await api.get("/saga-by-key", business_key="ORD-1", who="acme")
    assert found.json()["saga_id"] == api.rig.saga("ORD-1")
    await api.start(tenant="globex")
    assert problem(await api.get("/saga-by-key", business_key="ORD-1")) == (409, "ambiguous_key")
    assert (await api.get("/saga-by-key", business_key="ORD-1", who="acme")).status_code == 200
    none = await api.get("/saga-by-key", business_key="ORD-1", tenant="acme", who="globex")
    assert problem(none) == (404, "not_found")


async def test_lists_filter_and_page_although_sagas_begin_meanwhile(api: Api) -> None:
    for number in range(6):
        await api.start(f"A-{number}")
    await api.start("B-1")
    await api.start("A-9", tenant="globex")
    seen: list[str] = []
    cursor: str | None = None
    for page in range(4):
        query = {"cursor": cursor} if cursor else {}
        body = (await api.get("/sagas", who="acme", key_prefix="A-", limit=2, **query)).json()
        seen += [saga["business_key"] for saga in body["sagas"]]
        await api.start(f"A-late-{page}")
        cursor = body["next_cursor"]
        if cursor is None:
            break
    assert seen == ["A-5", "A-4", "A-3", "A-2", "A-1", "A-0"]
    many = await api.get("/sagas", status=["COMPLETED", "RUNNING"], tenant="globex")
    assert [saga["business_key"] for saga in many.json()["sagas"]] == ["A-9"]
    assert (await api.get("/sagas", tenant="acme", who="globex")).json()["sagas"] == []
    early = await api.get("/sagas", created_before="2020-01-01T00:00:00.000Z")
    assert early.json() == {"sagas": [], "next_cursor": None}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"limit": 0}, "invalid_field"),
        ({"limit": 1_001}, "invalid_field"),
        ({"cursor": "nonsense"}, "invalid_cursor"),
        ({"status": "DONE"}, "invalid_field"),
        ({"created_from": "yesterday"}, "invalid_field"),
        ({"created_from": "2026-13-01T00:00:00.000Z"}, "invalid_instant"),
        ({"colour": "red"}, "invalid_field"),
        ({"key_prefix": "\u0000"}, "invalid_field"),
    ],
    ids=str,
)
async def test_bad_filters_are_named(api: Api, query: dict[str, Any], code: str) -> None:
    assert problem(await api.get("/sagas", **query)) == (400, code)


async def test_a_long_poll_returns_with_the_outcome(api: Api) -> None:
    await api.start()
    saga = api.rig.saga("ORD-1")
    waiting = asyncio.create_task(api.get(f"/sagas/{saga}/outcome", timeout_ms=30_000))
    await run_to_the_end(api.rig)
    body = (await waiting).json()
    assert (body["status"], body["settled"], body["reason_code"]) == ("COMPLETED", True, None)
    again = await api.get(f"/sagas/{saga}/outcome", timeout_ms=30_000)
    assert again.json() == body


async def test_a_long_poll_ends_with_its_time(api: Api) -> None:
    await api.start()
    body = (await api.get(f"/sagas/{api.rig.saga('ORD-1')}/outcome", timeout_ms=1)).json()
    assert (body["status"], body["settled"]) == ("RUNNING", False)


async def test_a_long_poll_may_wait_for_the_next_revision(api: Api) -> None:
    await api.start()
    saga = api.rig.saga("ORD-1")
    waiting = asyncio.create_task(
        api.get(f"/sagas/{saga}/outcome", timeout_ms=30_000, after_revision=1)
    )
    (command,) = commands(await api.rig.read_outbox())
    await api.rig.process(api.rig.result_record(command))
    body = (await waiting).json()
    assert (body["revision"], body["settled"]) == (2, False)


async def test_a_saga_that_needs_a_person_is_settled(api: Api) -> None:
    await api.start()
    (command,) = commands(await api.rig.read_outbox())
    await api.rig.process(api.rig.result_record(command, ResultStatus.HALTED))
    body = (await api.get(f"/sagas/{api.rig.saga('ORD-1')}/outcome", timeout_ms=30_000)).json()
    assert (body["status"], body["settled"]) == ("MANUAL_INTERVENTION", True)
    assert body["reason_code"] == "step_halted"


async def test_a_thousand_waiters_share_one_statement_a_round(rig: Rig) -> None:
    sent = await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(10)))
    watch = StatusWatch(rig.database)
    woken: list[int] = []

    async def wait(number: int) -> None:
        saga = rig.saga(f"ORD-{number % 10}")
        await watch.wait(saga, lambda standing: standing.is_settled, 30)
        woken.append(number)

    waiters = [asyncio.create_task(wait(number)) for number in range(1_000)]

    async def all_wait() -> bool:
        await watch.look()
        return sum(len(each) for each in watch._waiters.values()) == 1_000

    await eventually(all_wait)
    assert woken == []
    (command,) = [c for c in commands(sent) if c.business_key == "ORD-3"]
    await rig.process(rig.result_record(command, ResultStatus.HALTED))
    await watch.look()
    await eventually(lambda: len(woken) == 100)
    assert {number % 10 for number in woken} == {3}
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)


async def test_a_long_poll_does_not_outlive_its_replica(api: Api) -> None:
    await api.start()
    saga = api.rig.saga("ORD-1")
    waiting = asyncio.create_task(api.get(f"/sagas/{saga}/outcome", timeout_ms=60_000))
    await eventually(lambda: bool(api.backend.watch._waiters))
    api.backend.stopping.set()
    assert (await waiting).json()["settled"] is False


async def test_the_plan_is_previewed_until_it_is_frozen(api: Api) -> None:
    await api.start()
    saga = api.rig.saga("ORD-1")
    (command,) = commands(await api.rig.read_outbox())
    (charge,) = commands(await api.rig.process(api.rig.result_record(command)))
    seen = (await api.get(f"/sagas/{saga}/plan")).json()
    assert (seen["frozen"], seen["members"]) == (False, ["reserve"])
    await api.rig.process(api.rig.result_record(charge, ResultStatus.REJECTED))
    frozen = (await api.get(f"/sagas/{saga}/plan")).json()
    assert (frozen["frozen"], frozen["members"]) == (True, ["reserve"])
    assert frozen["digest"] == seen["digest"]


async def test_the_journal_is_the_stored_chain(api: Api) -> None:
    await api.start()
    await run_to_the_end(api.rig)
    saga, head = api.rig.saga("ORD-1"), bytes(32)
    cursor: str | None = None
    kinds: list[str] = []
    while True:
        query = {"cursor": cursor} if cursor else {}
        response = await api.get(f"/sagas/{saga}/journal", limit=3, **query)
        body = response.json()
        for fact in body["facts"]:
            text = json.dumps(fact["fact"], ensure_ascii=False, separators=(",", ":"))
            assert text in response.text
            head = hashlib.sha256(head + text.encode()).digest()
            assert fact["head"] == head.hex()
            kinds.append(fact["fact"]["kind"])
        cursor = body["next_cursor"]
        if cursor is None:
            break
    assert kinds == [fact["kind"] for fact in await api.rig.facts("ORD-1")]
    assert (await api.get(f"/sagas/{saga}")).json()["journal_head"] == head.hex()


async def test_pages_of_all_journals_go_on_while_facts_are_appended(api: Api) -> None:
    seen: list[int] = []
    cursor: str | None = None
    for number in range(5):
        await api.start(f"ORD-{number}")
        await api.start(f"ORD-{number}", tenant="globex")
        query = {"cursor": cursor} if cursor else {}
        more = True
        while more:
            body = (await api.get("/journal", who="acme", limit=2, **query)).json()
            assert {row["tenant"] for row in body["rows"]} <= {"acme"}
            seen += [row["seq"] for row in body["rows"]]
            cursor, more = body["cursor"], body["more"]
            query = {"cursor": cursor}
    assert seen == sorted(set(seen))
    own = "select count(*) from journal j join saga s on s.id = j.saga_id where s.tenant = 'acme'"
    assert len(seen) == await api.rig.value(own)


async def test_why_says_who_was_asked(api: Api) -> None:
    await api.start()
    body = (await api.get(f"/sagas/{api.rig.saga('ORD-1')}/why")).json()
    assert body["waits_for"] == "answer"
    assert body["commands"][0]["participant"] == "inventory"
    assert body["kafka_problem"] == "none in this test"
