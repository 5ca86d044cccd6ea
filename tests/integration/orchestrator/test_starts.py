"""Starts: repeats, conflicts, refusals; in one batch, in several replicas, after the end."""

import pytest
from prometheus_client import CollectorRegistry

from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import START_REFUSED, Lifecycle
from sagabus_orchestrator.upkeep.archive import Archive, ArchivePolicy
from sagabus_orchestrator.upkeep.events import UpkeepEvents

from .support import Rig, commands, lifecycle, open_rig, order


def told(events: list[Lifecycle]) -> list[tuple[str, str | None, str | None]]:
    return [(str(event.status), event.start_id, event.reason_code) for event in events]


async def complete(rig: Rig, key: str) -> None:
    sent = await rig.process(rig.start_record(key))
    while found := commands(sent):
        sent = await rig.process(*(rig.result_record(command) for command in found))


async def test_equal_and_different_starts_of_a_key_in_one_batch(rig: Rig) -> None:
    sent = await rig.process(
        rig.start_record(start_id="first"),
        rig.start_record(start_id="same"),
        rig.start_record(start_id="other", payload={"sku": "gadget"}),
    )
    assert told(lifecycle(sent)) == [
        ("RUNNING", "first", None),
        ("RUNNING", "same", None),
        (START_REFUSED, "other", "request_conflict"),
    ]
    assert len(commands(sent)) == 1
    assert await rig.count("saga") == 1


async def test_the_same_record_again_is_not_answered_again(rig: Rig) -> None:
    record = rig.start_record(start_id="first")
    await rig.process(record, record)
    assert await rig.process(record) == []


async def test_a_key_of_an_ended_saga_never_starts_again(rig: Rig) -> None:
    await complete(rig, "ORD-1")
    sent = await rig.process(
        rig.start_record(start_id="again"), rig.start_record(start_id="no", payload={"sku": "x"})
    )
    assert told(lifecycle(sent)) == [
        ("COMPLETED", "again", None),
        (START_REFUSED, "no", "request_conflict"),
    ]
    assert commands(sent) == []


async def test_a_key_outlives_the_archival_of_its_saga(rig: Rig) -> None:
    await complete(rig, "ORD-1")
    archive = Archive(rig.database, UpkeepEvents(CollectorRegistry()), ArchivePolicy())
    assert await archive.move(0) == 1
    sent = await rig.process(
        rig.start_record(start_id="again"), rig.start_record(start_id="no", payload={"sku": "x"})
    )
    assert told(lifecycle(sent)) == [
        ("COMPLETED", "again", None),
        (START_REFUSED, "no", "request_conflict"),
    ]
    assert lifecycle(sent)[0].revision is None


async def test_a_repeat_stays_equal_when_a_newer_version_has_become_active(rig: Rig) -> None:
    await rig.process(rig.start_record(start_id="first"))
    await rig.publish(order(2))
    sent = await rig.process(
        rig.start_record(start_id="unnamed"),
        rig.start_record(start_id="one", version=1),
        rig.start_record(start_id="two", version=2),
    )
    assert told(lifecycle(sent)) == [
        ("RUNNING", "unnamed", None),
        ("RUNNING", "one", None),
        (START_REFUSED, "two", "request_conflict"),
    ]
    (fresh,) = lifecycle(await rig.process(rig.start_record("ORD-2")))
    assert fresh.definition_version == 2


async def test_a_repeat_is_answered_with_the_status_after_the_results_of_its_batch(
    rig: Rig,
) -> None:
    (command,) = commands(await rig.process(rig.start_record(start_id="first")))
    (event,) = [
        event
        for event in lifecycle(
            await rig.process(rig.result_record(command), rig.start_record(start_id="again"))
        )
        if event.start_id == "again"
    ]
    assert event.revision == 2


async def test_answers_stand_in_their_place_among_the_events_of_their_saga(rig: Rig) -> None:
    sent = await rig.process(rig.start_record(start_id="first"))
    for _ in range(3):
        sent = await rig.process(*(rig.result_record(command) for command in commands(sent)))
    (last,) = [rig.result_record(command) for command in commands(sent)]
    before, after = rig.start_record(start_id="before"), rig.start_record(start_id="after")
    assert told(lifecycle(await rig.process(before, last, after))) == [
        ("RUNNING", "before", None),
        ("COMPLETED", "first", None),
        ("COMPLETED", "after", None),
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workflow": "nothing"}, "definition_unknown"),
        ({"version": 7}, "definition_unknown"),
        ({"payload": {"sku": 1}}, "payload_contract_mismatch"),
        ({"schema": "other.v1"}, "payload_contract_mismatch"),
        ({"payload": {"sku": "x" * 245_800}}, "payload_contract_mismatch"),
    ],
)
async def test_what_cannot_start_is_answered(
    rig: Rig, changes: dict[str, object], reason: str
) -> None:
    record = rig.start_record(start_id="no", **changes)  # type: ignore[arg-type]  # by name
    sent = await rig.process(record)
    assert told(lifecycle(sent)) == [(START_REFUSED, "no", reason)]
    assert await rig.count("saga") == await rig.count("saga_key") == 0
    assert await rig.process(record) == []  # claimed: a repeat is not answered again


async def test_a_refused_key_can_start_later_also_in_the_same_batch(rig: Rig) -> None:
    sent = await rig.process(
        rig.start_record(start_id="bad", payload={"sku": 1}), rig.start_record(start_id="good")
    )
    assert told(lifecycle(sent)) == [
        (START_REFUSED, "bad", "payload_contract_mismatch"),
        ("RUNNING", "good", None),
    ]


async def test_trap_16_the_largest_payload_passes_through_to_a_command(rig: Rig) -> None:
    sent = await rig.process(rig.start_record(payload={"sku": "x" * 245_000}))
    assert len(commands(sent)) == 1


async def test_a_replica_that_knows_no_news_still_starts_what_was_activated(
    rig: Rig, prepared: str
) -> None:
    stale = await open_rig(prepared)
    await rig.publish({**order(), "workflow": "fresh"})
    await rig.publish(order(2))
    await stale.handler.process(
        [stale.start_record("ORD-1"), stale.start_record("ORD-2", workflow="fresh")]
    )
    found = lifecycle(await rig.read_outbox())
    assert {(event.status, event.definition_version) for event in found} == {
        (SagaStatus.RUNNING, 2),
        (SagaStatus.RUNNING, 1),
    }
    await stale.database.close()


async def test_a_replica_decides_a_saga_whose_definition_it_has_not_loaded(
    rig: Rig, prepared: str
) -> None:
    stale = await open_rig(prepared)
    await rig.publish({**order(), "workflow": "fresh"})
    (command,) = commands(await rig.process(rig.start_record(workflow="fresh")))
    await stale.handler.process([rig.result_record(command)])
    assert [c.step for c in commands(await rig.read_outbox())] == ["charge"]
    await stale.database.close()
