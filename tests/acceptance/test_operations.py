"""Operators steer definitions and sagas from the command line."""

import json
from pathlib import Path

from sagabus_testkit import eventually_sync
from sagabus_testkit.orders import DEFINITION

from .support import Shop, order_file, patient_order


def test_a_saga_is_paused_resumed_and_cancelled(shop: Shop, tmp_path: Path) -> None:
    patient_order(shop, tmp_path)
    payload = order_file(tmp_path)
    shop.sagabus(
        *("start", "patient-order", "--key", "OPS-1", "--payload", payload),
        *("--schema", "order.v1"),
    )

    dry = shop.document("cancel", "OPS-1", "--reason", "try", "--dry-run")
    paused = shop.document("pause", "OPS-1", "--reason", "look", "--operation-id", "op-1")
    again = shop.document("pause", "OPS-1", "--reason", "look", "--operation-id", "op-1")
    refused = shop.document("cancel", "OPS-1", "--reason", "now", expect=4)
    held = shop.document("show", "OPS-1")
    shop.sagabus("resume", "OPS-1", "--reason", "seen")
    cancelled = shop.document("cancel", "OPS-1", "--reason", "customer called")

    assert dry["dry_run"]
    assert dry["commands"] == ["CANCEL reserve-stock attempt 1"]
    assert (paused["repeated"], again["repeated"]) == (False, True)
    assert again["revision"] == paused["revision"]
    assert refused["error"]["code"] == "precondition_failed"
    assert held["control"] == "PAUSED"
    assert cancelled["kind"] == "cancel"
    eventually_sync(lambda: shop.document("show", "OPS-1")["status"] == "COMPENSATED", within=60)
    told = shop.sagabus("show", "OPS-1")
    assert "turns back: " in told
    assert "customer called" in told


def test_a_definition_lives_from_draft_to_retirement(shop: Shop, tmp_path: Path) -> None:
    document = json.loads(DEFINITION.read_text())
    parcel = tmp_path / "parcel.json"
    parcel.write_text(json.dumps({**document, "workflow": "parcel-2"}))
    second = tmp_path / "parcel-v2.json"
    document["steps"]["ship"]["execute"]["timeout_ms"] = 90_000
    second.write_text(json.dumps({**document, "workflow": "parcel-2", "version": 2}))
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps({**document, "workflow": "parcel-2"}))

    assert shop.document("definitions", "validate", str(parcel))["valid"]
    assert shop.document("definitions", "publish", str(parcel))["state"] == "DRAFT"
    conflict = shop.document("definitions", "publish", str(changed), expect=4)
    shop.sagabus("definitions", "publish", str(second), "--activate")
    assert shop.document("definitions", "deprecate", "parcel-2", "2")["state"] == "DEPRECATED"
    assert shop.document("definitions", "retire", "parcel-2", "2")["state"] == "RETIRED"
    back = shop.document("definitions", "activate", "parcel-2", "2", expect=4)

    assert conflict["error"]["code"] == "definition_conflict"
    assert back["error"]["code"] == "precondition_failed"
    changes = shop.document("definitions", "diff", "parcel-2", "1", "2")["diff"]
    assert any("90000" in line for line in changes)
    assert "flowchart TD" in shop.sagabus("definitions", "graph", str(parcel))
    states = {
        (each["workflow"], each["version"]): each["state"]
        for each in shop.document("definitions", "list")["definitions"]
    }
    assert states["parcel-2", 1] == "DRAFT"
    assert states["order", 1] == "ACTIVE"


def test_an_unsafe_definition_is_refused_with_every_problem(shop: Shop, tmp_path: Path) -> None:
    document = json.loads(DEFINITION.read_text())
    del document["steps"]["reserve-stock"]["cancel"]
    document["steps"]["ship"]["timeout_policy"] = "compensate_late_success"
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(document))

    problem = shop.document("definitions", "publish", str(broken), expect=2)["error"]

    assert problem["code"] == "invalid_definition"
    assert "/steps/reserve-stock" in problem["detail"]
    assert "/steps/ship" in problem["detail"]


def test_topics_are_made_once(shop: Shop) -> None:
    made = shop.document("topics", "ensure", "warehouse", "--partitions", "4")["topics"]
    again = shop.document("topics", "ensure", "warehouse", "--partitions", "4")["topics"]

    ours = [topic for topic in made if "warehouse" in topic["name"]]
    assert len(ours) == 4
    assert all(topic["created"] for topic in ours)
    assert not any(topic["created"] for topic in again)
