"""The `steps` section: what each participant registered, with its limits."""

from __future__ import annotations

from enum import StrEnum

from sagabus_core.definitions.fields import Fields, good_name
from sagabus_core.definitions.limits import (
    DEFAULT_ATTEMPTS,
    MAX_ATTEMPTS,
    MAX_BACKOFF_FACTOR,
    MAX_DURATION_MS,
    MAX_STEPS,
)
from sagabus_core.definitions.model import (
    Backoff,
    StepDefinition,
    StepKind,
    TimeoutPolicy,
    Timing,
)
from sagabus_core.payload import CONTENT_TYPE_PATTERN, SCHEMA_ID_PATTERN, PayloadContract

__all__ = ["read_contract", "read_steps"]


class _Nothing(StrEnum):
    NONE = "none"


class _InvalidPayload(StrEnum):
    HALT = "halt"
    REJECT = "reject"


def read_steps(section: Fields) -> dict[str, StepDefinition]:
    """Return every step that could be read; the others have left their problems."""
    steps: dict[str, StepDefinition] = {}
    entries = list(section.items())
    if not 1 <= len(entries) <= MAX_STEPS:
        section.problems.add(section.path, "too_many_steps", f"declare 1 to {MAX_STEPS} steps")
    for name, path, value in entries[:MAX_STEPS]:
        step = _read_step(name, Fields(section.problems, path, value))
        if good_name(section.problems, path, name) and step is not None:
            steps[name] = step
    return steps


def read_contract(fields: Fields) -> PayloadContract | None:
    """Return the contract of a payload, an output or a start."""
    content_type = fields.matching("content_type", CONTENT_TYPE_PATTERN)
    schema_id = fields.matching("schema_id", SCHEMA_ID_PATTERN)
    if content_type is None or schema_id is None:
        return None
    return PayloadContract(content_type, schema_id)


def _read_step(name: str, fields: Fields) -> StepDefinition | None:
    before = len(fields.problems)
    participant, kind = fields.name("participant"), fields.word("kind", StepKind)
    retriable = kind is StepKind.RETRIABLE
    cancellable = fields.flag("cancellable", required=not retriable) or False
    unknown = fields.flag("unknown_allowed", required=not retriable) or False
    policy = fields.word("timeout_policy", TimeoutPolicy, required=not retriable)
    execute = _read_timing(fields, "execute", retried=retriable)
    cancel, compensate = _read_timing(fields, "cancel"), _read_timing(fields, "compensate")
    resolve = _read_timing(fields, "resolve")
    nothing = fields.word("compensation", _Nothing, required=False) is not None
    payload, rejects = _read_payload(fields, retriable=retriable)
    output = _read_output(fields)
    fields.close()
    if len(fields.problems) > before or participant is None or kind is None or execute is None:
        return None
    policy = policy or TimeoutPolicy.ACCEPT_LATE_SUCCESS
    # fmt: off
    step = StepDefinition(
        name, participant, kind, cancellable, unknown, policy, execute, cancel, compensate,
        resolve, payload, rejects, output,
    )
    # fmt: on
    _check_kind(fields, step, nothing=nothing)
    return step


def _read_timing(fields: Fields, phase: str, *, retried: bool = True) -> Timing | None:
    part = fields.child(phase, required=phase == "execute")
    if part is None:
        return None
    timeout = part.integer("timeout_ms", MAX_DURATION_MS)
    attempts = part.integer("attempts", MAX_ATTEMPTS, required=False)
    if not retried and (attempts not in {None, 1} or "backoff" in part):
        part.problems.add(
            part.path, "never_retried", "only a retriable step's EXECUTE has attempts and backoff"
        )
    backoff = _read_backoff(part)
    budget = part.integer("budget_ms", MAX_DURATION_MS) if phase == "resolve" else None
    part.close()
    usual = DEFAULT_ATTEMPTS if retried else 1
    return Timing(timeout or 1, attempts or usual, backoff, budget)


def _read_backoff(part: Fields) -> Backoff:
    usual = Backoff()
    fields = part.child("backoff", required=False)
    if fields is None:
        return usual
    initial = fields.integer("initial_ms", MAX_DURATION_MS, required=False) or usual.initial_ms
    factor = fields.number("factor", 1, MAX_BACKOFF_FACTOR) or usual.factor
    longest = fields.integer("max_ms", MAX_DURATION_MS, required=False)
    longest = longest or max(usual.max_ms, initial)
    fields.close()
    if longest < initial:
        fields.note("max_ms", "out_of_range", "the longest wait is at least the first one")
    return Backoff(initial, factor, longest)


def _read_payload(fields: Fields, *, retriable: bool) -> tuple[PayloadContract | None, bool]:
    part = fields.child("payload", required=False)
    if part is None:
        return None, False
    contract = read_contract(part)
    rejects = (
        part.word("invalid_payload", _InvalidPayload, required=False) is _InvalidPayload.REJECT
    )
    part.close()
    if rejects and retriable:
        part.note(
            "invalid_payload", "retriable_never_rejects", "a retriable step has to succeed: halt"
        )
    return contract, rejects


def _read_output(fields: Fields) -> PayloadContract | None:
    part = fields.child("output", required=False)
    if part is None:
        return None
    contract = read_contract(part)
    part.close()
    return contract


def _check_kind(fields: Fields, step: StepDefinition, *, nothing: bool) -> None:
    match step.kind:
        case StepKind.RETRIABLE:
            _check_retriable(fields, step, nothing=nothing)
        case StepKind.PIVOT:
            _check_two_way(fields, step)
            if step.timeout_policy is not TimeoutPolicy.ACCEPT_LATE_SUCCESS:
                fields.note(
                    "timeout_policy",
                    "pivot_accepts_late_success",
                    "a pivot's late success is the only way on: accept_late_success",
                )
            if step.compensate is not None or nothing:
                fields.note("compensate", "pivot_never_compensated", "leave it out for a pivot")
        case StepKind.COMPENSATABLE:
            _check_two_way(fields, step)
            if (step.compensate is not None) == nothing:
                fields.note(
                    "compensate",
                    "compensation_undeclared",
                    'give either "compensate" or "compensation": "none"',
                )


def _check_two_way(fields: Fields, step: StepDefinition) -> None:
    if step.resolve is None:
        fields.note(
            "resolve",
            "resolver_missing",
            "every non-retriable step answers RESOLVE: add its limits",
        )
    if step.cancellable and step.cancel is None:
        fields.note("cancel", "cancel_missing", "a cancellable step needs the limits of CANCEL")
    if not step.cancellable and step.cancel is not None:
        fields.note("cancel", "cancel_undeclared", "set cancellable, or leave CANCEL out")


def _check_retriable(fields: Fields, step: StepDefinition, *, nothing: bool) -> None:
    wrong = {
        "cancellable": step.cancellable,
        "cancel": step.cancel is not None,
        "compensate": step.compensate is not None,
        "compensation": nothing,
        "resolve": step.resolve is not None,
        "timeout_policy": step.timeout_policy is not TimeoutPolicy.ACCEPT_LATE_SUCCESS,
    }
    for name, present in wrong.items():
        if present:
            fields.note(
                name, "retriable_only_executes", "a retriable step is only ever executed: remove it"
            )
