"""`sagabus definitions` and the management operations, as an operator types them, on a database."""

import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_core.canonical import JsonValue
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import Topics
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_testkit.stack import Kafka

from .support import Rig, Shell, commands, order

REFUSED, UNREACHABLE, USAGE = 4, 3, 2
WHY = ("--reason", "a ticket")
OPERATIONS = [
    *(("pause",), ("resume",), ("cancel",), ("retry",), ("close",)),
    ("record-outcome", "--attest", "reserve=SUCCEEDED", "--evidence", "seen"),
]


def write(folder: Path, document: JsonValue, name: str = "definition.json") -> str:
    path = folder / name
    path.write_text(json.dumps(document))
    return str(path)


def problem(said: dict[str, Any]) -> str:
    return str(said["error"]["code"])


class TestDefinitions:
    async def test_validate_needs_no_server_and_names_every_problem(
        self, tmp_path: Path, shell: Shell
    ) -> None:
        good = await shell("definitions", "validate", write(tmp_path, order()))
        assert good["valid"] is True
        assert good["participants"] == ["inventory", "payment", "shipping"]

        bad = write(tmp_path, order(version=0, extra=1, flow={"sequence": [{"step": "nowhere"}]}))
        said = await shell("definitions", "validate", bad, code=USAGE)
        assert problem(said) == "invalid_definition"
        for told in ("/version: out_of_range", "/extra: unknown_field", "0/step: unknown_step"):
            assert told in said["error"]["detail"]

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("{", "invalid_json"),
            ('{"workflow": "a", "workflow": "b"}', "duplicate_key"),
            ("[" * 100 + "]" * 100, "json_too_deep"),
            (" " * (256 * 1024 + 1), "definition_too_large"),
            ("null", "invalid_definition"),
        ],
        ids=["broken", "twice", "deep", "large", "null"],
    )
    async def test_what_is_no_document_is_refused(
        self, tmp_path: Path, shell: Shell, text: str, code: str
    ) -> None:
        path = tmp_path / "bad.json"
        path.write_text(text)
        for command in ("validate", "graph", "publish"):
            said = await shell("definitions", command, str(path), code=USAGE)
            assert problem(said) == code

    async def test_a_file_that_is_not_there(self, tmp_path: Path, shell: Shell) -> None:
        said = await shell("definitions", "validate", str(tmp_path / "none"), code=USAGE)
        assert problem(said) == "unreadable_file"

    async def test_a_published_version_never_changes(
        self, tmp_path: Path, shell: Shell, empty_rig: Rig
    ) -> None:
        first = await shell("definitions", "publish", write(tmp_path, order()))
        assert (first["state"], first["tenant"]) == ("DRAFT", None)
        assert await shell("definitions", "publish", write(tmp_path, order())) == first
        other = write(tmp_path, order(variables={"sku": "json"}))
        assert problem(await shell("definitions", "publish", other, code=REFUSED)) == (
            "definition_conflict"
        )
        assert await empty_rig.count("definition") == 1

    async def test_list_show_diff_and_graph(
        self, tmp_path: Path, shell: Shell, empty_rig: Rig
    ) -> None:
        del empty_rig
        for document in (order(), order(2, variables={"sku": "json"}), order(tenant="acme")):
            await shell("definitions", "publish", write(tmp_path, document))
        listed = (await shell("definitions", "list"))["definitions"]
        assert [(d["version"], d["tenant"], d["state"]) for d in listed] == [
            (1, None, "DRAFT"),
            (2, None, "DRAFT"),
            (1, "acme", "DRAFT"),
        ]
        shown = await shell("definitions", "show", "order", "1", "--tenant", "acme")
        assert shown["document"] == order(tenant="acme")
        lines = (await shell("definitions", "diff", "order", "1", "2"))["diff"]
        assert '-    "sku": "string"' in lines
        assert '+    "sku": "json"' in lines
        drawn = await shell("definitions", "graph", write(tmp_path, order()))
        assert drawn["mermaid"].startswith("flowchart")
        for command in (["show", "order", "9"], ["diff", "order", "1", "9"]):
            assert problem(await shell("definitions", *command, code=REFUSED)) == "not_found"

    async def test_activation_waits_for_the_topics(
        self, tmp_path: Path, shell: Shell, empty_rig: Rig, kafka: Kafka, topic_prefix: str
    ) -> None:
        def on(*words: str, code: int = 0) -> Awaitable[dict[str, Any]]:
            bus = ("--kafka", kafka.bootstrap, "--topic-prefix", f"{topic_prefix}.")
            return shell("definitions", *words, *bus, code=code)

        topics = Topics(f"{topic_prefix}.")
        file = write(tmp_path, order())
        said = await on("publish", file, "--activate", code=REFUSED)
        assert problem(said) == "topics_missing"
        assert topics.command("payment") in said["error"]["detail"]
        assert (await shell("definitions", "show", "order", "1"))["state"] == "DRAFT"

        async with TopicAdmin(KafkaConnection(kafka.bootstrap, "test")) as admin:
            await admin.ensure(topics.catalogue(["inventory", "payment"], 1))
            said = await on("activate", "order", "1", code=REFUSED)
            assert topics.result("shipping") in said["error"]["detail"]
            assert topics.result("payment") not in said["error"]["detail"]
            await admin.ensure(topics.catalogue(["shipping"], 1))
        assert (await on("activate", "order", "1"))["state"] == "ACTIVE"
        assert (await on("retire", "order", "1"))["state"] == "RETIRED"
        assert problem(await on("activate", "order", "1", code=REFUSED)) == "precondition_failed"
        del empty_rig

    async def test_retiring_waits_for_the_instances(self, shell: Shell, rig: Rig) -> None:
        sent = await rig.process(rig.start_record())
        assert (await shell("definitions", "deprecate", "order", "1"))["state"] == "DEPRECATED"
        said = await shell("definitions", "retire", "order", "1", code=REFUSED)
        assert problem(said) == "definition_in_use"
        await rig.watcher.refresh()
        await rig.process(rig.result_record(commands(sent)[0], ResultStatus.REJECTED))
        assert (await shell("definitions", "retire", "order", "1"))["state"] == "RETIRED"
        assert problem(await shell("definitions", "deprecate", "order", "1", code=REFUSED)) == (
            "precondition_failed"
        )


class TestOperations:
    async def halted(self, rig: Rig) -> None:
        sent = await rig.process(rig.start_record())
        await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))

    async def test_pause_and_resume_once_per_id(self, shell: Shell, rig: Rig) -> None:
        await rig.process(rig.start_record())
        dry = await shell("pause", "ORD-1", *WHY, "--dry-run")
        assert (dry["dry_run"], dry["commands"]) == (True, [])
        assert (await rig.snapshot("ORD-1"))["control"] == "ACTIVE"

        first = await shell("pause", rig.saga("ORD-1"), *WHY, "--operation-id", "p1")
        assert (first["kind"], first["repeated"], first["revision"]) == ("pause", False, 2)
        again = await shell("pause", "ORD-1", *WHY, "--operation-id", "p1")
        assert again == {**first, "repeated": True}
        said = await shell("resume", "ORD-1", *WHY, "--operation-id", "p1", code=REFUSED)
        assert problem(said) == "operation_id_reused"
        said = await shell("pause", "ORD-1", *WHY, code=REFUSED)
        assert problem(said) == "precondition_failed"
        said = await shell("cancel", "ORD-1", *WHY, code=REFUSED)
        assert "resume first" in said["error"]["detail"]

        dry = await shell("resume", "ORD-1", *WHY, "--dry-run")
        assert dry["status"] in {"RUNNING", "CANCELLING"}, "its step may be overdue meanwhile"
        assert (await shell("resume", "ORD-1", *WHY))["revision"] == 3
        assert await rig.count("operation") == 2

    async def test_cancel_says_before_what_it_will_issue(
        self, shell: Shell, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SAGABUS_ACTOR", "grace")
        await rig.process(rig.start_record())
        dry = await shell("cancel", "ORD-1", *WHY, "--dry-run")
        assert (dry["before"], dry["status"]) == ("RUNNING", "CANCELLING")
        done = await shell("cancel", "ORD-1", *WHY, "--expected-revision", "1")
        assert done["commands"] == dry["commands"] == ["CANCEL reserve attempt 1"]
        fact = (await rig.facts("ORD-1"))[-1]
        assert (fact["actor"], fact["reason"]) == ("grace", "a ticket")
        stale = await shell("pause", "ORD-1", *WHY, "--expected-revision", "1", code=REFUSED)
        assert problem(stale) == "stale_snapshot"

    async def test_retry_and_record_outcome_leave_manual(self, shell: Shell, rig: Rig) -> None:
        await self.halted(rig)
        dry = await shell("retry", "ORD-1", *WHY, "--dry-run")
        assert dry["commands"] == ["EXECUTE reserve attempt 2"]
        done = await shell("retry", "ORD-1", *WHY, "--operation-id", "r1")
        assert (done["status"], done["commands"]) == ("RUNNING", dry["commands"])
        said = await shell("retry", "ORD-1", *WHY, code=REFUSED)
        assert problem(said) == "precondition_failed"

        (again,) = commands(await rig.read_outbox())
        assert again.recovery_operation_id == "r1"
        await rig.process(rig.result_record(again, ResultStatus.HALTED))
        proof = ("--evidence", "the shelf is empty")
        attest = ("record-outcome", "ORD-1", *WHY, *proof, "--attest")
        said = await shell(*attest, "reserve=REJECTED", code=REFUSED)
        assert "can still start" in said["error"]["detail"]
        for wrong in ("reserve", "reserve=MAYBE", "undo:reserve=PERHAPS", "payload:reserve=x"):
            assert problem(await shell(*attest, wrong, code=USAGE)) == "invalid_attestation"
        said = await shell(*attest, "payload:reserve=@nowhere.json", code=USAGE)
        assert problem(said) == "unreadable_file"
        dry = await shell(*attest, "reserve=SUCCEEDED", "--dry-run")
        assert dry["commands"] == ["EXECUTE charge attempt 1"]
        assert (await shell(*attest, "reserve=SUCCEEDED"))["status"] == "RUNNING"

    async def test_a_payload_is_attested_by_the_contract_of_the_saga(
        self, shell: Shell, rig: Rig, tmp_path: Path
    ) -> None:
        wide: JsonValue = {"sequence": [{"step": "reserve", "input": {"x": "sku", "y": "sku"}}]}
        await rig.publish(order(2, flow=wide))
        sent = await rig.process(rig.start_record(payload={"sku": "x" * 150_000}))
        assert commands(sent) == []
        own = order(2, tenant="acme", flow=wide)
        own["steps"]["reserve"]["payload"]["schema_id"] = "reserve.v2"  # type: ignore[index,call-overload]  # JSON
        await rig.publish(own)
        file = write(tmp_path, {"x": 1}, "payload.json")
        attest = ("record-outcome", "ORD-1", *WHY, "--evidence", "by hand", "--attest")
        done = await shell(*attest, f"payload:reserve=@{file}")
        assert done["commands"] == ["EXECUTE reserve attempt 1"]

    async def test_an_attested_payload_is_json_or_nothing_happens(
        self, shell: Shell, rig: Rig, tmp_path: Path
    ) -> None:
        wide: JsonValue = {"sequence": [{"step": "reserve", "input": {"x": "sku", "y": "sku"}}]}
        await rig.publish(order(2, flow=wide))
        await rig.process(rig.start_record(payload={"sku": "x" * 150_000}))
        file = tmp_path / "bad.json"
        file.write_text('{"x": NaN}')
        attest = ("record-outcome", "ORD-1", *WHY, "--evidence", "by hand", "--attest")
        said = await shell(*attest, f"payload:reserve=@{file}", code=REFUSED)
        assert problem(said) == "non_finite_number"
        assert await rig.count("operation") == 0

    async def test_close_is_off_unless_allowed(
        self, shell: Shell, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self.halted(rig)
        said = await shell("close", "ORD-1", *WHY, code=REFUSED)
        assert problem(said) == "manual_close_disabled"
        monkeypatch.setenv("SAGABUS_MANUAL_CLOSE_ENABLED", "true")
        assert (await shell("close", "ORD-1", *WHY, "--dry-run"))["status"] == "MANUALLY_CLOSED"
        assert (await shell("close", "ORD-1", *WHY))["status"] == "MANUALLY_CLOSED"
        said = await shell("retry", "ORD-1", *WHY, code=REFUSED)
        assert problem(said) == "precondition_failed"

    @pytest.mark.parametrize("command", OPERATIONS)
    async def test_every_operation_checks_revision_tenant_and_workflow(
        self, shell: Shell, rig: Rig, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SAGABUS_MANUAL_CLOSE_ENABLED", "true")
        await self.halted(rig)
        name, *own = command
        for options, code in (
            (("--expected-revision", "99"), "stale_snapshot"),
            (("--tenant", "x"), "not_found"),
            (("--workflow", "x"), "not_found"),
        ):
            words = (name, "ORD-1", *own, *WHY, *options, "--operation-id", "op")
            assert problem(await shell(*words, code=REFUSED)) == code
        assert await rig.count("operation") == 0

    async def test_another_tenants_saga_looks_absent(self, shell: Shell, rig: Rig) -> None:
        await rig.process(rig.start_record())
        hidden = await shell("pause", rig.saga("ORD-1"), *WHY, "--tenant", "x", code=REFUSED)
        absent = await shell("pause", rig.saga("ORD-2"), *WHY, "--tenant", "x", code=REFUSED)
        assert problem(hidden) == problem(absent) == "not_found"

    @pytest.mark.parametrize("command", ["pause", "resume", "cancel", "retry", "close"])
    async def test_a_reason_is_asked_for(self, shell: Shell, rig: Rig, command: str) -> None:
        await rig.process(rig.start_record())
        assert problem(await shell(command, "ORD-1", code=USAGE)) == "usage"
        for wrong in (("--reason", " "), (*WHY, "--operation-id", "x" * 129)):
            said = await shell(command, "ORD-1", *wrong, code=REFUSED)
            assert problem(said) == "invalid_operation"


class TestAfterARestore:
    async def test_what_is_left_is_listed_and_discarded(self, shell: Shell, rig: Rig) -> None:
        rig.handler.mode = RecoveryMode.SETTLE
        await rig.process(rig.result_record(rig.foretold("ORD-1", "ship")))
        (left,) = (await shell("recovery", "list"))["early"]
        assert (left["business_key"], left["activation"], left["saga_status"]) == (
            *("ORD-1", "ship", None),
        )
        number = str(left["id"])
        assert problem(await shell("recovery", "discard", number, code=USAGE)) == "usage"
        done = await shell("recovery", "discard", number, *WHY)
        assert done["discarded"] == [left["id"]]
        assert (await shell("recovery", "list"))["early"] == []
        said = await shell("recovery", "discard", number, *WHY, code=REFUSED)
        assert problem(said) == "not_found"


async def test_without_the_database_a_command_says_what_to_do(shell: Shell, prepared: str) -> None:
    said = await shell("list", "--postgres", f"{prepared}_absent", code=UNREACHABLE)
    assert problem(said) == "no_database"
    assert "sagabus services" in said["error"]["detail"]
