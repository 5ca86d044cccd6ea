"""What a definition may say: every refusal, with where, which rule and how to mend it."""

import copy
from typing import Any, ClassVar

import pytest

from sagabus_core.canonical import canonical_bytes, sha256_hex
from sagabus_core.definitions import (
    DefinitionKey,
    DefinitionState,
    InvalidDefinition,
    NoConditions,
    definition_digest,
    parse_definition,
    select_for_start,
)
from sagabus_core.definitions.limits import MAX_DEFINITION_BYTES, MAX_DURATION_MS
from sagabus_core.errors import DefinitionInactive, DefinitionUnknown
from sagabus_core.testing import (
    TinyConditions,
    choice,
    compensatable,
    document,
    parallel,
    pivot,
    retriable,
)

JSON = {"content_type": "application/json", "schema_id": "s"}


def problems(doc: Any) -> set[tuple[str, str]]:
    try:
        parse_definition(doc, TinyConditions())
    except InvalidDefinition as refused:
        return {(problem.path, problem.rule) for problem in refused.problems if problem.mend}
    return set()


def rules(doc: Any) -> set[str]:
    return {rule for _, rule in problems(doc)}


def simple(**more: Any) -> dict[str, Any]:
    return document({"a": compensatable(), "b": compensatable()}, "a", "b", **more)


def changed(path: str, value: object, doc: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a document with one member set (or removed, for `...`)."""
    result = copy.deepcopy(doc or simple())
    *way, last = path.strip("/").split("/")
    target: Any = result
    for token in way:
        target = target[int(token) if isinstance(target, list) else token]
    if value is ...:
        del target[last]
    else:
        target[int(last) if isinstance(target, list) else last] = value
    return result


def test_a_good_definition_is_read_and_its_digest_is_that_of_what_was_published() -> None:
    doc = simple(tenant="acme")
    definition = parse_definition(doc, NoConditions())
    assert definition.digest == sha256_hex(canonical_bytes(doc)) == definition_digest(doc)
    assert list(definition.nodes) == ["a", "b"]
    assert definition.participants == {"shop"}
    assert definition.tenant == "acme"


def test_paths_join_the_names_of_named_nodes_only() -> None:
    steps = {n: compensatable() for n in "abc"}
    inner = choice("c1", "b", yes=("true == true", ["a"]))
    flow = [parallel("p1", left=["a", "b"], right="c"), {"step": "a", "name": "again"}, inner]
    doc = document(steps, *flow)
    doc = changed("/flow/sequence/2/choice/branches/0/when", "flag", doc)
    doc["variables"], doc["input"] = {"flag": "boolean"}, {**JSON, "set": {"flag": "/f"}}
    definition = parse_definition(doc, TinyConditions())
    assert list(definition.nodes) == [
        "p1.left.a",
        "p1.left.b",
        "p1.right.c",
        "again",
        "c1.yes.a",
        "c1.otherwise.b",
    ]


def test_all_problems_are_told_at_once() -> None:
    doc = changed("/version", 0)
    doc["steps"]["a"]["execute"]["timeout_ms"] = -1
    doc["steps"]["b"]["kind"] = "magic"
    doc["flow"]["sequence"].append({"step": "nowhere"})
    doc["extra"] = 1
    assert problems(doc) == {
        ("/version", "out_of_range"),
        ("/steps/a/execute/timeout_ms", "out_of_range"),
        ("/steps/b/kind", "not_one_of"),
        ("/flow/sequence/2/step", "unknown_step"),
        ("/extra", "unknown_field"),
    }


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("/workflow", "Order", "invalid_name"),
        ("/workflow", "a" * 64, "invalid_name"),
        ("/workflow", ..., "field_missing"),
        ("/workflow", None, "null_refused"),
        ("/version", True, "out_of_range"),
        ("/version", 2**31, "out_of_range"),
        ("/version", 1.5, "out_of_range"),
        ("/tenant", "t" * 129, "invalid_key"),
        ("/tenant", "a\nb", "text_expected"),
        ("/steps", [], "object_expected"),
        ("/steps/a/participant", "shop.eu", "invalid_name"),
        ("/steps/a/cancellable", "yes", "boolean_expected"),
        ("/steps/a/unknown_allowed", ..., "field_missing"),
        ("/steps/a/retries", 3, "unknown_field"),
        ("/steps/a/execute/timeout_ms", 0, "out_of_range"),
        ("/steps/a/execute/timeout_ms", MAX_DURATION_MS + 1, "out_of_range"),
        ("/steps/a/execute/timeout_ms", 2**63, "not_json"),
        ("/steps/a/execute/attempts", 2, "never_retried"),
        ("/steps/a/execute/budget_ms", 2, "unknown_field"),
        ("/steps/a/cancel/attempts", 1_001, "out_of_range"),
        ("/steps/a/cancel/backoff/factor", 0.5, "out_of_range"),
        ("/steps/a/cancel/backoff/factor", "2", "number_expected"),
        ("/steps/a/cancel/backoff/max_ms", 999, "out_of_range"),
        ("/steps/a/resolve/budget_ms", ..., "field_missing"),
        ("/steps/a/resolve", ..., "resolver_missing"),
        ("/steps/a/cancel", ..., "cancel_missing"),
        ("/steps/a/cancellable", False, "cancel_undeclared"),
        ("/steps/a/compensate", ..., "compensation_undeclared"),
        ("/steps/a/compensation", "none", "compensation_undeclared"),
        ("/steps/a/payload", {"content_type": "x"}, "field_missing"),
        ("/flow", {}, "field_missing"),
        ("/flow", {"sequence": []}, "list_expected"),
        ("/flow/sequence/0", {"sequence": [{"step": "a"}]}, "node_expected"),
        ("/flow/sequence/0", {"step": "a", "parallel": {}}, "node_expected"),
        ("/flow/sequence/0", "a", "object_expected"),
        ("/flow/sequence/0/name", "b", "duplicate_name"),
        ("/flow/sequence/0/input", {"x": "v"}, "contract_missing"),
        ("/flow/sequence/0/output", {"v": "/x"}, "contract_missing"),
        ("/variables", {"in": "string"}, "invalid_variable"),
        ("/variables", {"X": "string"}, "invalid_variable"),
        ("/variables", {"x" * 64: "string"}, "invalid_variable"),
        ("/variables", {"x": "date"}, "not_one_of"),
        ("/input", {**JSON, "set": {"x": "/x"}}, "unknown_variable"),
        ("/output", {**JSON, "content_type": "text/plain"}, "contract_missing"),
        ("/input", {**JSON, "content_type": "JSON"}, "invalid_content_type"),
        (
            "/input",
            {**JSON, "content_type": "application/json; charset=utf-8"},
            "invalid_content_type",
        ),
        ("/input", {**JSON, "schema_id": "order v1"}, "invalid_schema_id"),
        ("/steps/a/payload", {**JSON, "schema_id": "s" * 256}, "invalid_schema_id"),
        ("/steps/a/output", {**JSON, "schema_id": "bücher"}, "invalid_schema_id"),
    ],
)
def test_what_is_malformed_is_refused(path: str, value: object, rule: str) -> None:
    assert rule in rules(changed(path, value))


@pytest.mark.parametrize("doc", [None, 1, [], "x", {"a": float("nan")}, {"a": {1}}])
def test_what_is_no_object_is_refused(doc: object) -> None:
    assert rules(doc) & {"object_expected", "not_json"}


class TestLimits:
    def test_bytes(self) -> None:
        room = MAX_DEFINITION_BYTES - len(canonical_bytes(changed("/extra", "")))
        assert rules(changed("/extra", "x" * room)) == {"unknown_field"}
        assert rules(changed("/extra", "x" * (room + 1))) == {"too_large"}

    def flow_of(self, count: int) -> dict[str, Any]:
        nodes = [{"step": "a", "name": f"n{number}"} for number in range(count)]
        return document({"a": compensatable()}, *nodes)

    def test_step_nodes(self) -> None:
        assert rules(self.flow_of(256)) == set()
        assert rules(self.flow_of(257)) == {"too_many_steps"}

    def test_declared_steps(self) -> None:
        small = compensatable(cancellable=False)
        doc = document({f"s{n}": small for n in range(256)}, "s0")
        assert rules(doc) == set()
        assert "too_many_steps" in rules(document({f"s{n}": small for n in range(257)}, "s0"))

    def test_variables(self) -> None:
        assert rules(simple(variables={f"v{n}": "json" for n in range(64)})) == set()
        wide = simple(variables={f"v{n}": "json" for n in range(65)})
        assert rules(wide) == {"too_many_variables"}

    def nested(self, depth: int) -> dict[str, Any]:
        node: Any = {"step": "a"}
        for number in range(depth):
            node = parallel(f"p{number}", x=node, y="a")
        return document({"a": compensatable()}, node)

    def test_depth(self) -> None:
        assert rules(self.nested(16)) == set()
        assert rules(self.nested(17)) == {"too_deep"}

    @pytest.mark.parametrize(
        ("path", "edge", "beyond"),
        [
            ("/workflow", "a" * 63, "a" * 64),
            ("/tenant", "t" * 128, "t" * 129),
            ("/version", 2**31 - 1, 2**31),
            ("/version", 1, 0),
            ("/steps/a/participant", "p" * 63, "p" * 64),
            ("/steps/a/execute/timeout_ms", 1, 0),
            ("/steps/a/execute/timeout_ms", MAX_DURATION_MS, MAX_DURATION_MS + 1),
            ("/steps/a/compensate/timeout_ms", MAX_DURATION_MS, MAX_DURATION_MS + 1),
            ("/steps/a/resolve/budget_ms", MAX_DURATION_MS, MAX_DURATION_MS + 1),
            ("/steps/a/resolve/budget_ms", 1, -1),
            ("/steps/a/cancel/attempts", 1_000, 1_001),
            ("/steps/a/cancel/attempts", 1, 0),
            ("/steps/a/cancel/backoff/factor", 100, 100.5),
            ("/steps/a/cancel/backoff/factor", 1, 0.99),
            ("/steps/a/cancel/backoff/max_ms", MAX_DURATION_MS, MAX_DURATION_MS + 1),
            (
                "/steps/a/payload",
                {**JSON, "schema_id": "s" * 255},
                {**JSON, "schema_id": "s" * 256},
            ),
            (
                "/steps/a/payload",
                {**JSON, "content_type": "a" * 127 + "/b"},
                {**JSON, "content_type": "a" * 128 + "/b"},
            ),
            ("/variables", {"v" * 63: "json"}, {"v" * 64: "json"}),
            ("/flow/sequence/0/name", "n" * 63, "n" * 64),
        ],
    )
    def test_the_edge_is_well_and_one_beyond_is_refused(
        self, path: str, edge: object, beyond: object
    ) -> None:
        assert rules(changed(path, edge)) == set()
        assert len(rules(changed(path, beyond))) == 1

    def test_expressions_fields_and_pointers(self) -> None:
        def doc(when: int, field: int, pointer: int) -> dict[str, Any]:
            reads = {"step": "a", "input": {"x" * field: "f"}}
            asks = choice("c", [], one=("f" * when, [reads]))
            start = {**JSON, "set": {"f": "/" + "p" * (pointer - 1)}}
            more: dict[str, Any] = {"variables": {"f": "json"}, "input": start}
            return document({"a": compensatable(payload=JSON)}, asks, **more)

        assert rules(doc(4_097, 1, 1)) == {"text_expected"}
        assert rules(doc(4_096, 1, 1)) == {"invalid_condition"}, "long enough to be looked at"
        assert "text_expected" not in rules(doc(9, 256, 9))
        assert "text_expected" in rules(doc(9, 257, 9))
        assert "invalid_pointer" not in rules(doc(9, 9, 256))
        assert "invalid_pointer" in rules(doc(9, 9, 257))

    def test_the_length_of_a_path(self) -> None:
        """What a command could not name must not be published."""
        long = "n" * 63

        def deep(levels: int, last: str) -> dict[str, Any]:
            node: Any = {"step": "a", "name": last}
            for _ in range(levels):
                node = parallel(long, **{long: node, "y": "a"})
            return document({"a": compensatable()}, node)

        # A level adds two names with their dots: 8 * 128 characters.
        assert rules(deep(7, long)) == set()
        assert rules(deep(8, "x")) == {"path_too_long"}
        edge = deep(7, "x" * 63)  # 7 * 128 + 63 = 959: 65 more reach the limit
        around = edge["flow"]["sequence"][0]
        edge["flow"]["sequence"][0] = parallel("p" * 32, **{"b" * 31: around, "y": "a"})
        assert rules(edge) == set()
        edge["flow"]["sequence"][0]["parallel"]["name"] += "p"
        assert rules(edge) == {"path_too_long"}

    @pytest.mark.parametrize("path", ["execute/timeout_ms", "cancel/timeout_ms"])
    def test_durations(self, path: str) -> None:
        assert rules(changed(f"/steps/a/{path}", MAX_DURATION_MS)) == set()
        assert rules(changed(f"/steps/a/{path}", 1)) == set()

    def test_names(self) -> None:
        assert rules(changed("/workflow", "a" * 63)) == set()
        assert rules(changed("/flow/sequence/0/name", "0-" + "a" * 61)) == set()


class TestPivot:
    def check(self, *flow: Any) -> set[str]:
        steps = {"a": compensatable(), "p": pivot(), "q": pivot(), "r": retriable()}
        more = {"variables": {"f": "boolean"}, "input": {**JSON, "set": {"f": "/f"}}}
        return rules(document(steps, *flow, **more))

    def test_good(self) -> None:
        assert self.check("a", "p", "r") == set()
        assert self.check("a", "p", parallel("x", y="r", z="r")) == set()
        assert self.check("a", choice("c", "q", one=("f", ["p"])), "r") == set()
        assert self.check(choice("c", ["a"], one=("f", ["p", "r"]))) == set()

    def test_nothing_runs_beside_it(self) -> None:
        assert self.check(parallel("x", y="a", z="p")) == {"beside_pivot"}
        inner = choice("c", "a", one=("f", "p"))
        assert self.check(parallel("x", y="a", z=inner)) == {"beside_pivot"}

    def test_only_retriable_steps_after_it(self) -> None:
        assert self.check("p", "a") == {"not_retriable_after_pivot"}
        assert self.check("p", "q") == {"not_retriable_after_pivot"}
        maybe = choice("c", [], one=("f", "p"))
        assert self.check(maybe, "a") == {"not_retriable_after_pivot"}

    def test_a_retriable_only_behind_one_on_every_path(self) -> None:
        assert self.check("a", "r") == {"retriable_without_pivot"}
        maybe = choice("c", [], one=("f", "p"))
        assert self.check(maybe, "r") == {"retriable_without_pivot"}

    @pytest.mark.parametrize(
        ("step", "more", "rule"),
        [
            (pivot, {"timeout_policy": "compensate_late_success"}, "pivot_accepts_late_success"),
            (pivot, {"compensate": {"timeout_ms": 1}}, "pivot_never_compensated"),
            (pivot, {"compensation": "none"}, "pivot_never_compensated"),
            (retriable, {"compensate": {"timeout_ms": 1}}, "retriable_only_executes"),
            (retriable, {"cancel": {"timeout_ms": 1}}, "retriable_only_executes"),
            (retriable, {"cancellable": True}, "retriable_only_executes"),
            (retriable, {"resolve": {"timeout_ms": 1, "budget_ms": 1}}, "retriable_only_executes"),
            (
                retriable,
                {"payload": {**JSON, "invalid_payload": "reject"}},
                "retriable_never_rejects",
            ),
        ],
    )
    def test_what_its_steps_may_declare(self, step: Any, more: dict[str, Any], rule: str) -> None:
        doc = document({"p": pivot(), "x": step(**more)}, "p")
        assert rules(doc) == {rule}


class TestVariables:
    steps: ClassVar[dict[str, Any]] = {
        "a": compensatable(payload=JSON, output=JSON),
        "b": compensatable(),
    }
    base: ClassVar[dict[str, Any]] = {
        "variables": {"v": "integer", "w": "integer", "f": "boolean"},
        "input": {**JSON, "set": {"f": "/f"}},
    }
    sets: ClassVar[dict[str, Any]] = {"step": "a", "name": "sets", "output": {"v": "/v"}}
    reads: ClassVar[dict[str, Any]] = {"step": "a", "name": "reads", "input": {"x": "v"}}

    def check(self, *flow: Any, **more: Any) -> set[str]:
        return rules(document(self.steps, *flow, **{**self.base, **more}))

    def test_set_before_read(self) -> None:
        assert self.check(self.sets, self.reads) == set()
        assert self.check(self.reads, self.sets) == {"variable_unset"}

    def test_on_every_path(self) -> None:
        once = choice("c", [], one=("f", [self.sets]))
        both = choice("c", [self.sets], one=("f", [self.sets]))
        assert self.check(once, self.reads) == {"variable_unset"}
        assert self.check(both, self.reads) == set()
        assert self.check(parallel("p", x=[self.sets], y="b"), self.reads) == set()

    def test_branches_do_not_race(self) -> None:
        race = parallel("p", x=[self.sets], y=[self.reads])
        assert self.check(self.sets, race) == {"variable_race"}
        assert self.check(parallel("p", x=[self.sets], y=[self.sets])) == {"variable_race"}

    def test_a_condition_does_not_race_with_a_branch_either(self) -> None:
        asks = choice("c", "b", one=("v > 3", "b"))
        assert self.check(self.sets, parallel("p", x=[self.sets], y=[asks])) == {"variable_race"}
        assert self.check(self.sets, parallel("p", x="b", y=[asks])) == set()
        other = choice("c", "b", one=("f", "b"))
        assert self.check(self.sets, parallel("p", x=[self.sets], y=[other])) == set()

    def test_conditions_and_the_output_read_too(self) -> None:
        asks = choice("c", "b", one=("v > 3", "b"))
        assert self.check(asks) == {"variable_unset"}
        assert self.check(self.sets, asks) == set()
        assert self.check("b", output={**JSON, "fields": {"x": "v"}}) == {"variable_unset"}

    @pytest.mark.parametrize("pointer", ["x", "/~2", "/a~", 3])
    def test_pointers(self, pointer: object) -> None:
        assert self.check({**self.sets, "output": {"v": pointer}}) == {"invalid_pointer"}


class TestChoice:
    def check(self, **branches: Any) -> set[str]:
        doc = document({"a": compensatable()}, choice("c", "a", **branches))
        doc["variables"], doc["input"] = {"f": "boolean"}, {**JSON, "set": {"f": "/f"}}
        return rules(doc)

    def test_unreachable_branches(self) -> None:
        assert self.check(x=("true", "a")) == {"unreachable_branch"}
        assert self.check(x=("not true", "a")) == {"unreachable_branch"}
        assert self.check(x=("f", "a"), y=("f", "a")) == {"unreachable_branch"}
        assert self.check(x=("f", "a"), y=("not f", "a")) == set()

    def test_expressions_are_checked(self) -> None:
        assert self.check(x=("g", "a")) == {"invalid_condition"}
        assert self.check(x=("f &&", "a")) == {"invalid_condition"}
        assert self.check(x=("true > 3", "a")) == {"unreachable_branch"}

    def test_otherwise_is_mandatory_and_names_are_unique(self) -> None:
        doc = document({"a": compensatable()}, choice("c", "a", x=("f", "a")))
        doc["variables"], doc["input"] = {"f": "boolean"}, {**JSON, "set": {"f": "/f"}}
        assert "field_missing" in rules(changed("/flow/sequence/0/choice/otherwise", ..., doc))
        named = changed("/flow/sequence/0/choice/otherwise/name", "x", doc)
        assert rules(named) == {"duplicate_name"}
        none = changed("/flow/sequence/0/choice/branches", [], doc)
        assert rules(none) == {"list_expected"}

    def test_a_parallel_has_two_branches(self) -> None:
        assert rules(document({"a": compensatable()}, parallel("p", x="a"))) == {"too_few_branches"}


def test_selection_of_the_version_to_start() -> None:
    def key(tenant: str | None, version: int, state: str) -> DefinitionKey:
        return DefinitionKey(tenant, "order", version, DefinitionState(state))

    published = [
        key(None, 1, "RETIRED"),
        key(None, 2, "DEPRECATED"),
        key(None, 3, "ACTIVE"),
        key(None, 4, "ACTIVE"),
        key(None, 5, "DRAFT"),
        key("acme", 1, "RETIRED"),
        key("globex", 9, "DRAFT"),
    ]
    assert select_for_start(published, "other", "order", None).version == 4
    assert select_for_start(published, "other", "order", 2).version == 2
    assert select_for_start(published, "globex", "order", None).version == 4
    for tenant, inactive in [("other", 1), ("other", 5), ("acme", None), ("globex", 9)]:
        with pytest.raises(DefinitionInactive):
            select_for_start(published, tenant, "order", inactive)
    for workflow, unknown in [("ship", None), ("ship", 1), ("order", 9)]:
        with pytest.raises(DefinitionUnknown):
            select_for_start(published, "other", workflow, unknown)
