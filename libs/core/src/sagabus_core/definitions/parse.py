"""From a published document to a validated `Definition`.

The document, all of it (`?` marks what may be left out; nothing else is accepted):

    {"workflow": name, "version": 1.., "tenant"?: key (absent: global),
     "variables"?: {variable: "string" | "integer" | "number" | "boolean" | "json"},
     "input"?: {"content_type", "schema_id", "set"?: {variable: "/json/pointer"}},
     "output"?: {"content_type", "schema_id", "fields"?: {json_field: variable}},
     "steps": {step: {
        "participant": name, "kind": "compensatable" | "pivot" | "retriable",
        "cancellable": bool, "unknown_allowed": bool,
        "timeout_policy": "accept_late_success" | "compensate_late_success",
        "payload"?: {"content_type", "schema_id", "invalid_payload"?: "halt" | "reject"},
        "output"?: {"content_type", "schema_id"},
        "execute": TIMING, "cancel"?: TIMING, "compensate"?: TIMING, "compensation"?: "none",
        "resolve": TIMING + {"budget_ms"}}},
     "flow": {"sequence": [NODE, ...]}}

    TIMING  {"timeout_ms", "attempts"?: 5, "backoff"?: {"initial_ms"?: 1000, "factor"?: 2,
             "max_ms"?: 60000}}
    NODE    {"step": step, "name"?: the step's, "input"?: {json_field: variable},
             "output"?: {variable: "/json/pointer"}}
          | {"parallel": {"name", "branches": {name: BODY, name: BODY, ...}}}
          | {"choice": {"name", "branches": [{"name", "when": expression, "flow": BODY}, ...],
                        "otherwise": {"name"?: "otherwise", "flow": BODY}}}
    BODY    NODE | {"sequence": [NODE, ...]}   (empty: a branch that does nothing)

A retriable step has `participant`, `kind`, `execute` and contracts only (`unknown_allowed` has
no meaning for it). A cancellable step has `cancel`; a compensatable one either `compensate` or
`"compensation": "none"`. `attempts` and `backoff` of EXECUTE exist for retriable steps only.
"""

from __future__ import annotations

from collections.abc import Mapping

from sagabus_core.canonical import JsonValue, canonical_bytes, sha256_hex
from sagabus_core.definitions.conditions import Conditions
from sagabus_core.definitions.fields import Fields
from sagabus_core.definitions.flow import FlowReader
from sagabus_core.definitions.limits import MAX_DEFINITION_BYTES, MAX_VERSION
from sagabus_core.definitions.mappings import read_input, read_pointers, read_variables
from sagabus_core.definitions.model import (
    Definition,
    DefinitionOutput,
    StartContract,
    VariableType,
)
from sagabus_core.definitions.order import nodes_behind
from sagabus_core.definitions.problems import InvalidDefinition, Problem, Problems
from sagabus_core.definitions.rules import PivotRules, VariableRules
from sagabus_core.definitions.steps import read_contract, read_steps
from sagabus_core.errors import InvalidValue
from sagabus_core.names import check_key

__all__ = ["definition_digest", "parse_definition"]


def definition_digest(document: Mapping[str, JsonValue]) -> str:
    """Return the SHA-256 of the RFC 8785 form of what was published."""
    return sha256_hex(canonical_bytes(dict(document)))


def parse_definition(document: object, conditions: Conditions) -> Definition:
    """Return the definition, or raise `InvalidDefinition` with every problem that it has.

    `document` is strictly parsed JSON; it is kept as published, absent fields stay absent.
    """
    canonical = _canonical(document)
    problems = Problems()
    fields = Fields(problems, "", document)
    workflow, version = fields.name("workflow"), fields.integer("version", MAX_VERSION)
    tenant = _read_tenant(fields)
    variables = read_variables(fields.child("variables", required=False))
    section = fields.child("steps")
    steps = read_steps(section) if section else {}
    declared = frozenset(name for name, *_ in section.items()) if section else frozenset()
    reader = FlowReader(problems, declared, steps, variables)
    root = reader.root(fields.raw("flow"))
    start, output = _read_start(fields, variables), _read_output(fields, variables)
    fields.close()
    PivotRules(problems, reader.flow).check(root)
    known = frozenset(variable for variable, _ in start.variables) if start else frozenset()
    rules = VariableRules(problems, reader.flow, variables, conditions)
    _check_output(problems, output, rules.check(root, known))
    problems.raise_if_any()
    if workflow is None or version is None or not isinstance(document, dict):
        raise InvalidDefinition([Problem("", "object_expected", "write a JSON object")])
    # fmt: off
    return Definition(
        workflow, version, tenant, sha256_hex(canonical), root, steps, variables, reader.flow.nodes,
        reader.flow.choices, nodes_behind(root), document, conditions, start, output,
    )
    # fmt: on


def _canonical(document: object) -> bytes:
    """Return the canonical bytes, or refuse what is no I-JSON or too large to look at."""
    try:
        canonical = canonical_bytes(document)  # type: ignore[arg-type]  # checked by doing it
    except (InvalidValue, RecursionError) as cause:
        raise InvalidDefinition([Problem("", "not_json", f"write I-JSON ({cause})")]) from cause
    if len(canonical) > MAX_DEFINITION_BYTES:
        mend = f"at most {MAX_DEFINITION_BYTES} bytes in canonical form, not {len(canonical)}"
        raise InvalidDefinition([Problem("", "too_large", mend)])
    return canonical


def _read_tenant(fields: Fields) -> str | None:
    tenant = fields.text("tenant", required=False)
    if tenant is None:
        return None
    try:
        return check_key(tenant, "the tenant")
    except InvalidValue as cause:
        fields.note("tenant", cause.code, cause.detail)
        return None


def _read_start(fields: Fields, variables: Mapping[str, VariableType]) -> StartContract | None:
    part = fields.child("input", required=False)
    if part is None:
        return None
    contract = read_contract(part)
    pointers = read_pointers(part, "set", variables)
    part.close()
    if contract is None:
        return None
    if pointers and contract.content_type != "application/json":
        part.note("set", "contract_missing", "only a JSON payload can set variables")
    return StartContract(contract, pointers)


def _read_output(fields: Fields, variables: Mapping[str, VariableType]) -> DefinitionOutput | None:
    part = fields.child("output", required=False)
    if part is None:
        return None
    contract = read_contract(part)
    pairs = read_input(part, "fields", variables) or ()
    part.close()
    if contract is None:
        return None
    if contract.content_type != "application/json":
        part.note("content_type", "contract_missing", "an output is application/json")
    return DefinitionOutput(contract, pairs)


def _check_output(
    problems: Problems, output: DefinitionOutput | None, known: frozenset[str]
) -> None:
    for name, variable in output.fields if output else ():
        if variable not in known:
            problems.add(
                f"/output/fields/{name}",
                "variable_unset",
                f"{variable!r} is not set on every path: set it, or do not report it",
            )
