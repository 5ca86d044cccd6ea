"""Results that nobody asked for, or that somebody else wrote, change nothing and claim nothing."""

import json
from dataclasses import replace

from sagabus_client import SagabusClient, SagaHandle, StartCommand
from sagabus_core import ids
from sagabus_core.vocabulary import Phase, ResultStatus, SagaStatus
from sagabus_messages import Command, OutboxRow, Result, Stamp, encode, json_payload, source_of
from sagabus_testkit import eventually
from sagabus_testkit.orders import Order, scenario

from .support import Shop


def forged(
    shop: Shop, handle: SagaHandle, *, attempt: int = 1, participant: str = "inventory"
) -> OutboxRow:
    """Return a success of reserve-stock that only this test made up, with ids that re-derive."""
    saga = shop.document("show", handle.saga_id)
    now_ms = handle.started_at_ms + 1_000
    effect = ids.effect_id(handle.saga_id, 1, "reserve-stock", Phase.EXECUTE, None)
    command = ids.command_id(effect, attempt)
    body = Result(
        saga_id=handle.saga_id,
        tenant=handle.tenant,
        workflow=handle.workflow,
        business_key=handle.business_key,
        definition_version=1,
        definition_digest=saga["definition_digest"],
        step="reserve-stock",
        activation="reserve-stock",
        phase=Phase.EXECUTE,
        attempt=attempt,
        effect_id=effect,
        command_id=command,
        event_id=ids.result_event_id(command, 77),
        status=ResultStatus.SUCCEEDED,
        output=json_payload({"reservation_id": "forged"}, "inventory.reserve-stock.output.v1"),
        occurred_at_ms=now_ms,
    )
    topic = shop.system.topics.result(participant)
    return encode(body, topic, Stamp(source_of(participant), now_ms))


def forged_command(shop: Shop, handle: SagaHandle, *, attempt: int) -> OutboxRow:
    """Return a command to reserve once more, as whoever administers the broker could write it."""
    saga = shop.document("show", handle.saga_id)
    now_ms = handle.started_at_ms + 1_000
    effect = ids.effect_id(handle.saga_id, 1, "reserve-stock", Phase.EXECUTE, None)
    body = Command(
        saga_id=handle.saga_id,
        tenant=handle.tenant,
        workflow=handle.workflow,
        business_key=handle.business_key,
        definition_version=1,
        definition_digest=saga["definition_digest"],
        step="reserve-stock",
        activation="reserve-stock",
        phase=Phase.EXECUTE,
        attempt=attempt,
        effect_id=effect,
        command_id=ids.command_id(effect, attempt),
        expires_at_ms=now_ms + 600_000,
    )
    topic = shop.system.topics.command("inventory")
    return encode(body, topic, Stamp(source_of("orchestrator"), now_ms))


def with_another_effect(row: OutboxRow) -> OutboxRow:
    body = json.loads(row.value or b"")
    body["effect_id"] = ids.saga_id("some", "other", "effect")
    return replace(row, value=json.dumps(body).encode())


async def test_forged_results_become_dead_letters_and_burn_no_id(shop: Shop) -> None:
    order = Order("FORGED-1", scenario("no-answer"), "being-counted", 1, 500)
    async with SagabusClient(shop.system.connection, shop.system.topics, name="test") as client:
        handle = await client.start(
            StartCommand("default", "order", order.key, order.command.payload)
        )
        await client.first_news(handle, timeout_s=30)
        genuine = forged(shop, handle)
        forgeries = [
            (
                shop.keys.sign(forged(shop, handle, participant="payment"), "payment"),
                "producer_mismatch",
            ),
            (with_another_effect(genuine), "identity_mismatch"),
            (forged(shop, handle, attempt=2), "signature_missing"),
            (shop.keys.sign(forged(shop, handle, attempt=7), "inventory"), "attempt_never_issued"),
        ]
        for row, reason in forgeries:
            await shop.publish(row)
            ce_id = dict(row.headers)["ce_id"].decode()
            letter = await shop.find_dead_letter(row.topic, ce_id)
            assert dict(letter.headers)["sagabus-error-reason"].decode() == reason
            claims = shop.ask("orchestrator", f"select count(*) from inbox where ce_id = '{ce_id}'")
            assert claims == 0
        outcome = await client.wait(handle, timeout_s=90)

        for row, reason in (
            (forged_command(shop, handle, attempt=8), "signature_missing"),
            (
                shop.keys.sign(forged_command(shop, handle, attempt=9), "payment"),
                "signature_invalid",
            ),
        ):
            await shop.publish(row)
            letter = await shop.find_dead_letter(row.topic, dict(row.headers)["ce_id"].decode())
            assert dict(letter.headers)["sagabus-error-reason"].decode() == reason

    assert outcome.status is SagaStatus.COMPENSATED
    saga = await eventually(lambda: shop.document("show", handle.saga_id))
    assert [step["state"] for step in saga["steps"]] == ["CANCELLED"]
    assert saga["variables"].get("reservation_id") is None
