"""The same commands through the API and on the database: one document, one exit code."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.orchestrator.support import Rig, commands, order, patient_order

from sagabus_cli import app
from sagabus_core.vocabulary import ResultStatus

from .lines import NOT_PERMITTED, REFUSED, UNREACHABLE, USAGE, WHY, Line, both, once


async def test_reading_says_the_same_both_ways(rig: Rig, line: Line) -> None:
    sent = await rig.process(rig.start_record())
    await rig.process(rig.start_record("ORD-2"))
    await rig.process(rig.result_record(commands(sent)[0], ResultStatus.SUCCEEDED))

    page = await both(line, "list", "--limit", "1")
    assert [saga["business_key"] for saga in page["sagas"]] == ["ORD-2"]
    page = await both(line, "list", "--limit", "1", "--cursor", page["next_cursor"])
    assert [saga["business_key"] for saga in page["sagas"]] == ["ORD-1"]
    assert (await both(line, "list", "--status", "COMPLETED"))["sagas"] == []
    assert len((await both(line, "list", "--key", "ORD", "--tenant", "acme"))["sagas"]) == 2

    shown = await both(line, "show", "ORD-1")
    assert shown["revision"] == 2
    assert {fact["kind"] for fact in shown["journal"]} >= {"started", "command", "answer"}
    assert await both(line, "show", rig.saga("ORD-1")) == shown
    assert len((await both(line, "show", "ORD-1", "ORD-2"))["sagas"]) == 2
    for words in (("show", "ORD-9"), ("show", "ORD-1", "--tenant", "globex"), ("why", "ORD-9")):
        said = await both(line, *words, code=REFUSED)
        assert said["error"]["code"] == "not_found"
    assert (await both(line, "definitions", "list"))["definitions"][0]["state"] == "ACTIVE"
    assert (await both(line, "definitions", "show", "order", "1"))["document"] == order()
    assert (await once(line, "api", "why", "ORD-1"))["waits_for"] == "answer"


@pytest.mark.parametrize("way", ["direct", "api"])
async def test_operations_mean_the_same_both_ways(rig: Rig, line: Line, way: str) -> None:
    await rig.publish(patient_order(2))
    sent = await rig.process(rig.start_record())
    dry = await once(line, way, "pause", "ORD-1", *WHY, "--dry-run")
    assert (dry["dry_run"], dry["before"], dry["revision"]) == (True, "RUNNING", None)
    first = await once(line, way, "pause", "ORD-1", *WHY, "--operation-id", "p1")
    assert (first["kind"], first["revision"], first["repeated"]) == ("pause", 2, False)
    again = await once(line, way, "pause", "ORD-1", *WHY, "--operation-id", "p1")
    assert again == {**first, "repeated": True}
    reused = await once(line, way, "resume", "ORD-1", *WHY, "--operation-id", "p1", code=REFUSED)
    assert reused["error"]["code"] == "operation_id_reused"
    stale = await once(line, way, "resume", "ORD-1", *WHY, "--expected-revision", "9", code=REFUSED)
    assert stale["error"]["code"] == "stale_snapshot"
    assert (await once(line, way, "resume", "ORD-1", *WHY))["revision"] == 3
    await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))
    attested = ("record-outcome", "ORD-1", *WHY, "--evidence", "seen", "--attest")
    done = await once(line, way, *attested, "reserve=SUCCEEDED")
    assert done["commands"] == ["EXECUTE charge attempt 1"]


@pytest.mark.parametrize("way", ["direct", "api"])
async def test_an_attested_payload_takes_the_contract_of_the_saga(
    rig: Rig, line: Line, way: str, tmp_path: Path
) -> None:
    flow: Any = {"sequence": [{"step": "reserve", "input": {"x": "sku", "y": "sku"}}]}
    await rig.publish(order(2, flow=flow))
    await rig.process(rig.start_record(payload={"sku": "x" * 150_000}))
    file = tmp_path / "payload.json"
    file.write_text('{"x": 1}')
    attested = ("record-outcome", "ORD-1", *WHY, "--evidence", "by hand", "--attest")
    done = await once(line, way, *attested, f"payload:reserve=@{file}")
    assert done["commands"] == ["EXECUTE reserve attempt 1"]
    (command,) = commands(await rig.read_outbox())
    assert command.payload is not None
    assert command.payload.schema_id == "reserve.v1"


@pytest.mark.parametrize("way", ["direct", "api"])
async def test_definitions_are_steered_both_ways(
    rig: Rig, line: Line, way: str, tmp_path: Path
) -> None:
    del rig
    file = tmp_path / "order.json"
    file.write_text(json.dumps(order(2)))
    published = await once(line, way, "definitions", "publish", str(file))
    assert (published["version"], published["state"]) == (2, "DRAFT")
    other = tmp_path / "other.json"
    other.write_text(json.dumps(order(2, variables={"sku": "json"})))
    said = await once(line, way, "definitions", "publish", str(other), code=REFUSED)
    assert said["error"]["code"] == "definition_conflict"
    steered = await once(line, way, "definitions", "deprecate", "order", "1")
    assert steered["state"] == "DEPRECATED"
    lines = await once(line, way, "definitions", "diff", "order", "1", "2")
    assert lines["diff"]


async def test_a_start_through_the_api(rig: Rig, line: Line, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"sku": "widget"}')
    words = ("start", "order", "--key", "ORD-7", "--tenant", "acme", "--payload", str(file))
    said = await once(line, "api", *words)
    assert (said["saga_id"], said["status"]) == (rig.saga("ORD-7"), "RUNNING")
    again = await once(line, "api", *words)
    assert {**again, "start_id": said["start_id"]} == said
    refused = await once(line, "api", "start", "nothing", "--key", "ORD-8", code=REFUSED)
    assert refused["error"]["code"] in {"definition_unknown", "definition_inactive"}


async def test_who_may_not_is_told_so_by_the_exit_code(rig: Rig, line: Line) -> None:
    await rig.process(rig.start_record())
    for words in (("list",), ("start", "order", "--key", "ORD-2")):
        said = await once(line, "api", *words, code=NOT_PERMITTED, who="nobody")
        assert said["error"]["code"] == "credentials_missing"
    said = await once(line, "api", "pause", "ORD-1", *WHY, code=NOT_PERMITTED, who="viewer")
    assert said["error"]["code"] == "permission_denied"
    said = await once(line, "api", "pause", "ORD-1", *WHY, code=REFUSED, who="globex")
    assert said["error"]["code"] == "not_found"
    said = await once(line, "api", "list", "--cursor", "nonsense", code=USAGE)
    assert said["error"]["code"] == "invalid_cursor"


async def test_without_an_api_or_a_key_the_mend_is_told(
    line: Line, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del line
    monkeypatch.delenv("SAGABUS_API_KEY", raising=False)

    async def run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(app.run, list(words))
        return code, capsys.readouterr().err

    code, said = await run("list", "--api", "http://127.0.0.1:9")
    assert (code, "SAGABUS_API_KEY" in said) == (USAGE, True)
    monkeypatch.setenv("SAGABUS_API_KEY", "sbk-very-secret")
    code, said = await run("list", "--api", "http://127.0.0.1:9")
    assert (code, "--direct" in said) == (UNREACHABLE, True)
    assert "sbk-very-secret" not in said
    code, said = await run("list", "--api", "ftp://x")
    assert (code, "invalid_address" in said) == (USAGE, True)
