"""Parallels, choices, variables and payloads."""

import gc
import json
import sys
from types import FrameType
from typing import Any

import pytest

from sagabus_core.engine import (
    AttestedBranch,
    AttestedOutput,
    AttestedPayload,
    Cancel,
    LifecycleChanged,
    ManualReason,
    RecordOutcome,
    ResultReceived,
    decide,
    frontier,
    skipped,
)
from sagabus_core.engine.mapping import MAX_PAYLOAD_BYTES
from sagabus_core.errors import InvalidValue, OperationRefused
from sagabus_core.payload import Payload
from sagabus_core.testing import SagaDriver, choice, compensatable, document, parallel
from sagabus_core.vocabulary import Phase, ResultStatus, SagaStatus

JSON = {"content_type": "application/json", "schema_id": "s"}


def payload(value: object, schema_id: str = "s") -> Payload:
    return Payload("application/json", schema_id, json.dumps(value).encode())


def reasons(saga: SagaDriver) -> list[ManualReason]:
    return list(saga.snapshot.reasons.values())


class TestParallel:
    def saga(self) -> SagaDriver:
        steps = {n: compensatable() for n in "abcd"}
        return SagaDriver(document(steps, parallel("all", x=["a", "b"], y="c"), "d"))

    def test_all_branches_start_and_all_are_joined(self) -> None:
        saga = self.saga()
        assert saga.commands == [("all.x.a", "E", 1), ("all.y.c", "E", 1)]
        saga.answer("all.y.c", "SUCCEEDED")
        assert saga.commands == []
        saga.answer("all.x.a", "SUCCEEDED")
        assert saga.commands == [("all.x.b", "E", 1)]
        saga.answer("all.x.b", "SUCCEEDED")
        assert saga.commands == [("d", "E", 1)]

    def test_a_first_execute_waits_while_a_sibling_is_in_doubt(self) -> None:
        saga = self.saga()
        saga.answer("all.y.c", "UNKNOWN")
        saga.answer("all.x.a", "SUCCEEDED")
        assert saga.commands == []
        assert saga.status is SagaStatus.WAITING_RESOLUTION
        saga.answer("all.y.c", "SUCCEEDED")
        assert saga.commands == [("all.x.b", "E", 1)]

    def test_a_rejection_cancels_the_sibling_before_anything_is_undone(self) -> None:
        saga = self.saga()
        saga.answer("all.x.a", "REJECTED")
        assert saga.commands == [("all.y.c", "C", 1)]
        assert saga.status is SagaStatus.CANCELLING
        saga.answer("all.y.c", "ALREADY_TERMINAL:SUCCEEDED", "CANCEL")
        assert saga.commands == [("all.y.c", "K", 1)]

    def test_a_halted_sibling_refuses_the_freeze(self) -> None:
        saga = self.saga()
        saga.answer("all.y.c", "HALTED")
        saga.answer("all.x.a", "REJECTED")
        assert saga.snapshot.plan is None
        assert saga.status is SagaStatus.MANUAL_INTERVENTION


class TestChoice:
    def saga(self, value: object = 5) -> SagaDriver:
        steps = {n: compensatable() for n in "abc"}
        flow = choice("size", "b", big=("amount > 3", ["a"]))
        more: dict[str, Any] = {
            "variables": {"amount": "json"},
            "input": {**JSON, "set": {"amount": "/amount"}},
        }
        return SagaDriver(document(steps, flow, "c", **more), payload=payload({"amount": value}))

    @pytest.mark.parametrize(("value", "path"), [(5, "size.big.a"), (2, "size.otherwise.b")])
    def test_one_branch_is_taken_the_rest_is_skipped(self, value: int, path: str) -> None:
        saga = self.saga(value)
        assert saga.commands == [(path, "E", 1)]
        both = {"size.big.a", "size.otherwise.b"}
        assert skipped(saga.definition, saga.snapshot) == both - {path}
        saga.answer(path, "SUCCEEDED")
        assert saga.commands == [("c", "E", 1)]
        saga.answer("c", "SUCCEEDED")
        assert saga.status is SagaStatus.COMPLETED

    def test_an_empty_branch_does_nothing(self) -> None:
        steps = {"a": compensatable()}
        saga = SagaDriver(
            document(
                steps,
                choice("maybe", [], yes=("flag", "a")),
                variables={"flag": "boolean"},
                input={**JSON, "set": {"flag": ""}},
            ),
            payload=payload(value=False),
        )
        assert saga.status is SagaStatus.COMPLETED

    def test_an_error_asks_a_person_who_attests_the_branch(self) -> None:
        saga = self.saga("many")
        assert reasons(saga) == [ManualReason.CONDITION_ERROR]
        assert saga.commands == []
        for wrong in (AttestedBranch("size", "nowhere"), AttestedBranch("else", "big")):
            with pytest.raises(OperationRefused):
                saga.apply(RecordOutcome(saga.operation(), wrong, "seen"))
        branch = AttestedBranch("size", "big")
        saga.apply(RecordOutcome(saga.operation(), branch, "seen"))
        assert saga.commands == [("size.big.a", "E", 1)]

    def test_or_cancels(self) -> None:
        saga = self.saga("many")
        saga.apply(Cancel(saga.operation()))
        assert saga.status is SagaStatus.COMPENSATED


class TestPayloads:
    def saga(self) -> SagaDriver:
        steps = {
            "a": compensatable(output={**JSON, "schema_id": "out"}),
            "b": compensatable(payload={**JSON, "schema_id": "in"}),
        }
        flow = [
            {"step": "a", "output": {"total": "/sum/0", "note": ""}},
            {"step": "b", "input": {"amount": "total", "who": "who"}},
        ]
        more: dict[str, Any] = {
            "variables": {"total": "integer", "who": "string", "note": "json"},
            "input": {**JSON, "set": {"who": "/name"}},
            "output": {**JSON, "fields": {"total": "total"}},
        }
        return SagaDriver(document(steps, *flow, **more), payload=payload({"name": "ann"}))

    def test_variables_flow_from_start_and_output_to_commands_and_the_end(self) -> None:
        saga = self.saga()
        assert saga.sent[0].payload is None
        saga.answer("a", "SUCCEEDED", output=payload({"sum": [7]}, "out"))
        assert saga.sent[1].payload == Payload(
            "application/json", "in", b'{"amount":7,"who":"ann"}'
        )
        saga.answer("b", "SUCCEEDED")
        told = [e for e in saga.last.effects if isinstance(e, LifecycleChanged)]
        assert told[0].output == Payload("application/json", "s", b'{"total":7}')

    @pytest.mark.parametrize(
        "output",
        [
            None,
            payload({"sum": [7]}, "other"),
            payload({"sum": []}, "out"),
            payload({"sum": [True]}, "out"),
            payload({"sum": [7.5]}, "out"),
            payload({"sum": [2**53]}, "out"),
            Payload("application/json", "out", b"{"),
        ],
    )
    def test_a_bad_output_settles_and_asks_a_person(self, output: Payload | None) -> None:
        saga = self.saga()
        saga.answer("a", "SUCCEEDED", output=output)
        assert reasons(saga) == [ManualReason.OUTPUT_CONTRACT_MISMATCH]
        assert saga.commands == []
        bad = AttestedOutput("a", payload({}, "out"))
        with pytest.raises(OperationRefused):
            saga.apply(RecordOutcome(saga.operation(), bad, "seen"))
        good = AttestedOutput("a", payload({"sum": [1]}, "out"))
        saga.apply(RecordOutcome(saga.operation(), good, "seen"))
        assert saga.commands == [("b", "E", 1)]

    def test_or_is_undone_after_a_cancel(self) -> None:
        saga = self.saga()
        saga.answer("a", "SUCCEEDED")
        saga.apply(Cancel(saga.operation()))
        assert saga.commands == [("a", "K", 1)]

    def test_on_the_way_back_a_bad_output_does_not_matter(self) -> None:
        saga = self.saga()
        saga.apply(Cancel(saga.operation()))
        saga.answer("a", "SUCCEEDED")
        assert saga.commands == [("a", "K", 1)]

    def test_too_large_a_payload_is_not_issued(self) -> None:
        steps = {"a": compensatable(payload=JSON)}
        flow = {"step": "a", "input": {"x": "doc", "y": "doc"}}
        more: dict[str, Any] = {
            "variables": {"doc": "json"},
            "input": {**JSON, "set": {"doc": ""}},
        }
        text = "x" * (MAX_PAYLOAD_BYTES // 2)
        saga = SagaDriver(document(steps, flow, **more), payload=payload(text))
        assert reasons(saga) == [ManualReason.COMMAND_PAYLOAD_INVALID]
        assert saga.commands == []
        wrong = AttestedPayload("a", payload("x", "other"))
        with pytest.raises(InvalidValue):
            saga.apply(RecordOutcome(saga.operation(), wrong, "seen"))
        saga.apply(RecordOutcome(saga.operation(), AttestedPayload("a", payload("x")), "seen"))
        assert saga.last.commands[0].payload == payload("x")

    @pytest.mark.parametrize(("depth", "issued"), [(61, 1), (62, 0)])
    def test_too_deep_a_payload_is_not_issued(self, depth: int, issued: int) -> None:
        """An envelope could not carry it: the decision would be poison for ever."""
        steps = {"a": compensatable(payload=JSON)}
        more: dict[str, Any] = {"variables": {"doc": "json"}, "input": {**JSON, "set": {"doc": ""}}}
        deep = json.loads("[" * depth + "]" * depth)
        flow = {"step": "a", "input": {"x": "doc"}}
        saga = SagaDriver(document(steps, flow, **more), payload=payload(deep))
        assert len(saga.commands) == issued
        assert len(saga.snapshot.reasons) == 1 - issued

    def test_a_payload_that_is_not_json_starts_what_reads_nothing_of_it(self) -> None:
        opaque = {"content_type": "image/png", "schema_id": "scan"}
        doc = document({"a": compensatable()}, "a", input=opaque)
        saga = SagaDriver(doc, payload=Payload("image/png", "scan", b"\x89PNG"))
        assert saga.commands == [("a", "E", 1)]

    def test_a_start_with_a_bad_payload_is_refused(self) -> None:
        with pytest.raises(InvalidValue):
            SagaDriver(self.saga().definition, payload=payload({"name": 1}))
        with pytest.raises(InvalidValue):
            SagaDriver(self.saga().definition)
        with pytest.raises(InvalidValue):
            SagaDriver(document({"a": compensatable()}, "a"), payload=payload({}))


def test_the_frontier_names_what_comes_next() -> None:
    saga = TestParallel().saga()
    saga.answer("all.x.a", "SUCCEEDED")
    assert frontier(saga.definition, saga.snapshot) == ()


def instructions(length: int) -> int:
    """Count the instructions of one decision, in the middle of a flow of so many steps."""
    names = [f"s{number}" for number in range(length)]
    saga = SagaDriver(document({name: compensatable() for name in names}, *names))
    for name in names[: length // 2]:
        saga.answer(name, "SUCCEEDED")
    event = ResultReceived("e", names[length // 2], Phase.EXECUTE, 1, ResultStatus.SUCCEEDED)
    count = 0

    def trace(frame: FrameType, what: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, count = True, count + (what == "opcode")
        return trace

    before = sys.gettrace()
    gc.disable()  # what others do at a collection would be counted too
    sys.settrace(trace)
    try:
        decide(saga.definition, saga.snapshot, event, saga.now_at_ms)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_a_decision_costs_the_same_in_a_long_flow() -> None:
    assert 0 < instructions(4) == instructions(40)
