"""What cannot start is refused with a stable code, on the lifecycle topic and by the command."""

import json
from pathlib import Path

import pytest

from sagabus_client import Outcome, SagabusClient, StartCommand
from sagabus_messages import json_payload

from .support import Shop

GOOD = {
    "order": "X",
    "sku": "widget-1",
    "quantity": 1,
    "card": "visa-1",
    "amount_cents": 100,
    "address": "1 Main Street",
}
SOLD_OUT = {**GOOD, "sku": "sold-out"}


def command(key: str, payload: object = None, **changes: str) -> StartCommand:
    workflow = changes.get("workflow", "order")
    schema = changes.get("schema", "order.v1")
    body = json_payload(payload, schema) if payload is not None else None  # type: ignore[arg-type]  # JSON by construction
    return StartCommand("default", workflow, key, body)


async def start(shop: Shop, wanted: StartCommand) -> Outcome:
    async with SagabusClient(shop.system.connection, shop.system.topics, name="test") as client:
        return await client.wait(await client.start(wanted), timeout_s=60)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (command("REF-1", GOOD, workflow="parcel"), "definition_unknown"),
        (command("REF-2"), "payload_contract_mismatch"),
        (command("REF-3", GOOD, schema="other.v1"), "payload_contract_mismatch"),
        (command("REF-4", {**GOOD, "quantity": "many"}), "payload_contract_mismatch"),
        (command("REF-5", {"order": "X"}), "payload_contract_mismatch"),
        (command("REF-6", [1, 2, 3]), "payload_contract_mismatch"),
    ],
    ids=["unknown-workflow", "no-payload", "schema", "type", "missing-field", "no-object"],
)
async def test_a_start_that_cannot_be_is_refused_and_starts_nothing(
    shop: Shop, wanted: StartCommand, code: str
) -> None:
    outcome = await start(shop, wanted)

    assert (outcome.status, outcome.reason_code) == ("START_REFUSED", code)
    assert (
        shop.ask(
            "orchestrator", f"select count(*) from saga_key where id = '{outcome.handle.saga_id}'"
        )
        == 0
    )


async def test_a_key_with_other_content_is_refused_and_the_same_content_is_answered(
    shop: Shop,
) -> None:
    first = await start(shop, command("KEY-1", SOLD_OUT))
    again = await start(shop, command("KEY-1", SOLD_OUT))
    other = await start(shop, command("KEY-1", {**SOLD_OUT, "quantity": 2}))

    assert (first.status, again.status) == ("COMPENSATED", "COMPENSATED")
    assert (other.status, other.reason_code) == ("START_REFUSED", "request_conflict")
    assert first.handle.saga_id == again.handle.saga_id == other.handle.saga_id
    assert shop.document("show", "KEY-1")["revision"] == first.revision


def test_the_command_says_the_code_and_starts_nothing(shop: Shop, tmp_path: Path) -> None:
    order = tmp_path / "order.json"
    order.write_text(json.dumps(SOLD_OUT))
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**SOLD_OUT, "quantity": 3}))
    broken = tmp_path / "broken.json"
    broken.write_text('{"quantity": 1, "quantity": 2}')

    assert "COMPENSATED" in shop.sagabus(
        "start", "order", "--key", "CLI-1", "--payload", str(order), "--wait"
    )
    conflict = shop.sagabus("start", "order", "--key", "CLI-1", "--payload", str(other), expect=4)
    unknown = shop.document("start", "parcel", "--key", "CLI-2", expect=4)
    duplicate = shop.sagabus("start", "order", "--key", "CLI-3", "--payload", str(broken), expect=2)
    missing = shop.sagabus("show", "CLI-3", expect=4)

    assert "[request_conflict]" in conflict
    assert unknown["error"]["code"] == "definition_unknown"
    assert "[duplicate_key]" in duplicate
    assert "[not_found]" in missing


def test_a_file_of_orders_runs_to_its_outcomes(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    lines = [{"key": f"RUN-{n}", "payload": {**SOLD_OUT, "order": f"RUN-{n}"}} for n in range(5)]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    bad = tmp_path / "bad.jsonl"
    bad.write_text(json.dumps({"key": "RUN-9", "payload": {"order": "RUN-9"}}))

    good = shop.document("run", str(file), "--workflow", "order")
    wrong = shop.document("run", str(bad), "--workflow", "order", expect=1)

    assert good["outcomes"]["COMPENSATED"]["count"] == 5
    assert wrong["sagas"][0]["reason_code"] == "payload_contract_mismatch"
    listed = shop.document("list", "--key", "RUN-", "--limit", "3")
    rest = shop.document("list", "--key", "RUN-", "--limit", "3", "--cursor", listed["next_cursor"])
    keys = [saga["business_key"] for saga in [*listed["sagas"], *rest["sagas"]]]
    assert sorted(keys) == [f"RUN-{n}" for n in range(5)]
    assert rest["next_cursor"] is None
