"""Stored form, request digests, diagrams, the closed tables, and that the invariants can fail."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagabus_core.canonical import JsonValue, canonical_bytes, sha256_hex
from sagabus_core.definitions import NoConditions, parse_definition
from sagabus_core.engine import (
    Channel,
    Decision,
    ForwardState,
    IssueCommand,
    JournalFact,
    MemberState,
    Snapshot,
    StartRequest,
    from_json,
    request_digest,
    to_json,
)
from sagabus_core.engine.diagram import mermaid_forward, mermaid_member, mermaid_status
from sagabus_core.engine.inputs import ANSWERS, Input
from sagabus_core.engine.invariants import INVARIANTS, violations
from sagabus_core.engine.table import FORWARD, MEMBER, Profile, forward_move, member_move
from sagabus_core.errors import IllegalTransition, InvalidValue, RequestConflict, SnapshotTooNew
from sagabus_core.payload import Payload
from sagabus_core.testing import SagaDriver, compensatable, document, pivot
from sagabus_core.vocabulary import ALLOWED_RESULTS, Control, SagaStatus


def saga() -> SagaDriver:
    driven = SagaDriver(document({n: compensatable() for n in "ab"}, "a", "b"))
    driven.answer("a", "SUCCEEDED")
    driven.answer("b", "REJECTED")
    return driven


class TestStoredForm:
    def test_it_survives_json_whatever_the_order_of_keys(self) -> None:
        snapshot = saga().snapshot._replace(payloads={"a": Payload("x/y", "s", b"\x00\xff")})
        text = json.dumps(to_json(snapshot), sort_keys=True)
        assert from_json(json.loads(text)) == snapshot

    def test_it_is_compact(self) -> None:
        assert len(json.dumps(to_json(saga().snapshot))) < 1_400

    def test_a_newer_one_is_refused_for_now(self) -> None:
        data = {**to_json(saga().snapshot), "v": 2}
        with pytest.raises(SnapshotTooNew) as refused:
            from_json(data)
        assert refused.value.retryable


class TestRequestDigest:
    request = StartRequest("acme", "k", "s", 5, Payload("a/b", "s", b"x"))

    def test_equal_requests_agree(self) -> None:
        one = request_digest(self.request, "order", 1, "d")
        two = request_digest(self.request, "order", 1, "d")
        two.check_same(one.digest, one.fields)

    @pytest.mark.parametrize("key", ["k", 'Zo\u00eb "\\\u2028\x7f\n', "\U0001f600"])
    def test_digests_are_those_of_the_general_canonical_form(self, key: str) -> None:
        request = replace(self.request, business_key=key)
        found = request_digest(request, "order", 3, "d")
        assert found.fields["business_key"] == sha256_hex(canonical_bytes(["business_key", key]))
        assert found.fields["definition_version"] == sha256_hex(
            canonical_bytes(["definition_version", 3])
        )
        pairs: list[JsonValue] = [[name, digest] for name, digest in found.fields.items()]
        assert found.digest == sha256_hex(canonical_bytes(pairs))

    @pytest.mark.parametrize(
        ("field", "change"),
        [
            ("tenant", {"tenant": "other"}),
            ("business_key", {"business_key": "l"}),
            ("deadline_at", {"deadline_at_ms": None}),
            ("payload_content_type", {"payload": Payload("a/c", "s", b"x")}),
            ("payload_schema_id", {"payload": Payload("a/b", "t", b"x")}),
            ("payload_data", {"payload": Payload("a/b", "s", b"y")}),
        ],
    )
    def test_every_field_counts_and_is_named(self, field: str, change: dict[str, Any]) -> None:
        stored = request_digest(self.request, "order", 1, "d")
        known = {"tenant": "acme", "business_key": "k", "deadline_at_ms": 5}
        changed = {**known, "payload": self.request.payload, **change}
        other = request_digest(StartRequest(start_id="s2", **changed), "order", 1, "d")
        assert other.differing(stored.fields) == (field,)
        with pytest.raises(RequestConflict, match=field):
            other.check_same(stored.digest, stored.fields)

    def test_the_definition_counts_but_not_the_record(self) -> None:
        stored = request_digest(self.request, "order", 1, "d")
        for other in (
            request_digest(self.request, "ship", 1, "d"),
            request_digest(self.request, "order", 2, "d"),
            request_digest(self.request, "order", 1, "e"),
        ):
            assert len(other.differing(stored.fields)) == 1
        again = StartRequest("acme", "k", "another", 5, self.request.payload)
        assert request_digest(again, "order", 1, "d") == stored


class TestTables:
    def test_every_answer_of_the_wire_is_known(self) -> None:
        known = {(channel.phase, status) for channel, status, _ in ANSWERS}
        allowed = {(phase, s) for phase, statuses in ALLOWED_RESULTS.items() for s in statuses}
        assert known == allowed

    def test_another_answer_is_refused(self) -> None:
        driven = saga()
        with pytest.raises(InvalidValue):
            driven.answer("a", "REJECTED", "COMPENSATE")
        with pytest.raises(InvalidValue):
            driven.answer("a", "SUCCEEDED", "RESOLVE", attempt=1)

    @pytest.mark.parametrize("profile", Profile)
    def test_an_unlisted_pair_is_an_error(self, profile: Profile) -> None:
        for state, given in itertools.product(ForwardState, Input):
            if (state, given) not in FORWARD[profile]:
                with pytest.raises(IllegalTransition):
                    forward_move(profile, state, given)
        for member, given in itertools.product(MemberState, Input):
            if (member, given) not in MEMBER:
                with pytest.raises(IllegalTransition):
                    member_move(member, given)

    def test_every_answer_has_a_move_in_every_state_that_can_receive_it(self) -> None:
        for channel, state in itertools.product(Channel, ForwardState):
            answers = [given for (asked, *_), (given, _) in ANSWERS.items() if asked is channel]
            listed = [(state, given) in FORWARD[Profile.CANCELLABLE] for given in answers]
            assert all(listed) or not any(listed), (channel, state)

    def test_the_readme_shows_the_tables_of_today(self) -> None:
        readme = (Path(__file__).parents[1] / "README.md").read_text()
        drawn = [mermaid_status(), mermaid_member(), *map(mermaid_forward, Profile)]
        assert all(f"```mermaid\n{diagram}```" in readme for diagram in drawn)

    def test_the_diagrams_show_every_state(self) -> None:
        drawn = mermaid_forward(Profile.CANCELLABLE)
        assert "EXECUTING --> CANCELLING: attempt timeout, abort decided" in drawn
        assert "CANCELLING --> RESOLVING" in drawn
        assert "RESOLVING --> COMPENSATING: RESOLVE undo REJECTED" in mermaid_member()
        assert all(status in mermaid_status() for status in SagaStatus)


def test_a_journal_of_several_facts_derives_its_trigger_ids() -> None:
    facts = [e for e in saga().last.effects if isinstance(e, JournalFact)]
    ids = [fact.trigger_id for fact in facts]
    assert ids[0] == facts[0].trigger.id
    assert len(set(ids)) == len(ids)


class TestTheInvariantsCanFail:
    """A seeded mutation per invariant has to be caught."""

    def broken(self, numbers: str, before: Snapshot | None, after: Snapshot, *effects: Any) -> None:
        steps = {"a": compensatable(), "b": compensatable(), "p": pivot()}
        definition = parse_definition(document(steps, "a", "b", "p"), NoConditions())
        found = violations(definition, before, Decision(after, effects), 1_000_000_000_000)
        assert numbers in {sentence.split()[0] for sentence in found}

    def command(self, path: str, channel: Channel, attempt: int = 1) -> IssueCommand:
        return IssueCommand("s", 1, path, "a", "shop", channel, attempt, 0)

    def started(self) -> SagaDriver:
        steps = {"a": compensatable(), "b": compensatable(), "p": pivot()}
        return SagaDriver(document(steps, "a", "b", "p"))

    def test_each(self) -> None:
        fresh, back = self.started().snapshot, self.back().snapshot
        plan = back.plan
        assert plan is not None
        act = fresh.activations["a"]
        done = act._replace(state=ForwardState.SUCCEEDED, success_sequence=1)
        undo, go = self.command("a", Channel.COMPENSATE), self.command("b", Channel.EXECUTE)
        terminal = fresh._replace(status=SagaStatus.COMPLETED)
        self.broken("I1", None, fresh, undo)
        self.broken("I2", None, fresh, undo)
        self.broken("I3", None, back._replace(plan=replace(plan, members=())))
        self.broken("I3", back, back._replace(plan=None), "effect")
        self.broken("I4", None, back._replace(activations={"p": done}))
        self.broken("I5", terminal, fresh)
        self.broken("I5", terminal, terminal, go)
        self.broken("I6", None, fresh._replace(armed_at_ms=None))
        self.broken(
            "I6", None, fresh._replace(activations={"a": act._replace(deadline_at_ms=None)})
        )
        self.broken("I6", None, fresh._replace(activations={}))
        self.broken("I7", None, fresh, go)
        self.broken("I8", None, fresh, *[self.command("a", Channel.EXECUTE)] * 2)
        self.broken("I8", None, fresh, self.command("a", Channel.CANCEL))
        self.broken("I9", None, fresh._replace(control=Control.PAUSED), go)
        self.broken("I11", None, terminal)
        self.broken("I12", None, back._replace(status=SagaStatus.COMPENSATED))
        answered = {"a": act._replace(answers={"E1": "S"})}
        self.broken("I14", fresh._replace(activations=answered), fresh)
        self.broken("I14", fresh._replace(activations={"a": done}), fresh)
        self.broken("WAY", None, fresh._replace(activations={"a": done}))
        stale = fresh._replace(generation=9)
        stale.live = {}
        self.broken("LIVE", None, stale)
        self.broken("REV", fresh, fresh._replace(generation=9))

    def back(self) -> SagaDriver:
        driven = self.started()
        driven.answer("a", "SUCCEEDED")
        driven.answer("b", "REJECTED")
        return driven

    def test_none_was_forgotten(self) -> None:
        numbered = {f"I{number}" for number in range(1, 15)} - {"I10", "I13"} | {
            "WAY",
            "LIVE",
            "REV",
        }
        assert numbered <= set(INVARIANTS)
