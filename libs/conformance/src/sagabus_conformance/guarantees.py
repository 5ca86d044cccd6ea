"""What a participant promises: stable names, the promise, and what to do where it is broken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["CATALOGUE", "Guarantee", "Promise"]


class Guarantee(StrEnum):
    """Stable names; programs may rely on them."""

    ANSWERED = "every-command-is-answered"
    WELL_FORMED = "answers-are-well-formed"
    NAMED = "answers-name-their-command"
    SAME_EVENT = "a-repeated-answer-is-the-same-event"
    TRACED = "the-trace-continues"
    LENIENT = "unknown-members-are-ignored"
    ONE_EFFECT = "one-effect-per-effect-id"
    APART = "activations-are-apart"
    NO_CONTRADICTION = "facts-never-contradict"
    CANCEL_FENCES = "cancel-confirmed-is-a-fence"
    RESOLVE_FENCES = "resolve-rejected-is-a-fence"
    CANCEL_LATE = "cancel-after-success-says-so"
    RESOLVE_TRUE = "resolve-tells-what-happened"
    REJECTED_FINAL = "rejected-is-final"
    UNKNOWN_CONVERGES = "unknown-converges"
    UNDO_ONLY_SUCCESS = "compensate-only-what-succeeded"
    UNDO_ONCE = "undo-happens-once"
    UNDO_RESOLVED = "resolve-of-an-undo-is-honest"
    EXPIRED = "expired-is-never-started"
    PAYLOAD = "payload-contract-is-checked"
    HALTED = "halted-reopens-only-by-recovery"
    FORGERIES = "forgeries-have-no-effect"
    POISON = "poison-holds-nothing"
    DEAD_LETTERED = "unreadable-is-dead-lettered"
    KILL_LOSES_NOTHING = "no-command-lost-on-kill"
    KILL_REPEATS_NOTHING = "nothing-twice-on-kill"
    KILL_KEEPS_FENCES = "fences-survive-a-kill"


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise in one sentence, and how to mend a participant that breaks it."""

    text: str
    mend: str


_JOURNAL = "Record outcomes per effect id in the transaction of the effect, and look there first."
_FENCE = (
    "Store the fence durably before the negative answer, and read it, under a lock of the "
    "activation, before every EXECUTE."
)

CATALOGUE: Final[dict[Guarantee, Promise]] = {
    Guarantee.ANSWERED: Promise(
        "a readable, unexpired command is answered on the result topic",
        "Commit an offset only after the answer is durable; publish from an outbox.",
    ),
    Guarantee.WELL_FORMED: Promise(
        "headers, key and body of an answer are valid and agree, its status fits the phase",
        "Check the answers against contracts/schemas/result.v1.json and contracts/vectors.",
    ),
    Guarantee.NAMED: Promise(
        "an answer names exactly the command that it answers: attempt, phase, target, all ids",
        "Copy every identifying member from the command; build none anew.",
    ),
    Guarantee.SAME_EVENT: Promise(
        "under one event id there is one body and one ce_time, however often it is sent",
        "Store the encoded answer, or derive event id and times from stored facts.",
    ),
    Guarantee.TRACED: Promise(
        "the answer carries a traceparent of the trace of its command",
        "Copy the trace id of `traceparent` from the command's headers.",
    ),
    Guarantee.LENIENT: Promise(
        "unknown members and headers of version 1 are ignored",
        "Do not fail on unknown properties: optional fields may be added within a version.",
    ),
    Guarantee.ONE_EFFECT: Promise(
        "repeats, new and stale attempts apply one effect and get one outcome and output",
        _JOURNAL,
    ),
    Guarantee.APART: Promise(
        "activations of one saga have outcomes, effects and fences of their own",
        "Key the journal by effect id, never by saga id or business key.",
    ),
    Guarantee.NO_CONTRADICTION: Promise(
        "about one effect there is never both a success and a denial",
        "Decide about an activation under one lock; definitive outcomes never change.",
    ),
    Guarantee.CANCEL_FENCES: Promise(
        "after CANCEL_CONFIRMED every EXECUTE answers REJECTED `fenced` and does nothing", _FENCE
    ),
    Guarantee.RESOLVE_FENCES: Promise(
        "after RESOLVE(EXECUTE) REJECTED every EXECUTE answers REJECTED `fenced` and does nothing",
        _FENCE + " Where that is impossible answer UNKNOWN.",
    ),
    Guarantee.CANCEL_LATE: Promise(
        "CANCEL after success answers ALREADY_TERMINAL with SUCCEEDED and undoes nothing",
        "Look into the journal before cancelling; undoing is COMPENSATE's work.",
    ),
    Guarantee.RESOLVE_TRUE: Promise(
        "RESOLVE(EXECUTE) tells the recorded outcome with its output, at every attempt",
        "Answer RESOLVE from the journal; from the outside only while the journal is open.",
    ),
    Guarantee.REJECTED_FINAL: Promise(
        "REJECTED of a step that is not retriable stays: for attempts, CANCEL and RESOLVE",
        _JOURNAL,
    ),
    Guarantee.UNKNOWN_CONVERGES: Promise(
        "UNKNOWN is answered only where declared, and RESOLVE or a second answer ends it",
        "Implement RESOLVE by asking the outside under the effect id.",
    ),
    Guarantee.UNDO_ONLY_SUCCESS: Promise(
        "COMPENSATE without a recorded success answers HALTED `nothing_to_compensate`",
        "Look for the recorded success of EXECUTE before undoing.",
    ),
    Guarantee.UNDO_ONCE: Promise(
        "COMPENSATE after a success undoes once, whatever is repeated, and stays SUCCEEDED",
        "Journal the undo under its own effect id, like EXECUTE.",
    ),
    Guarantee.UNDO_RESOLVED: Promise(
        "RESOLVE(COMPENSATE) claims no undo that did not happen, and forbids none",
        "Look at `target`: the question is about the undo, and its denial is no fence.",
    ),
    Guarantee.EXPIRED: Promise(
        "a command past `expires_at` is neither started nor answered",
        "Compare `expires_at` with the database clock before the handler runs.",
    ),
    Guarantee.PAYLOAD: Promise(
        "a payload of another contract answers HALTED (or, where declared, REJECTED) "
        "`payload_contract_mismatch` and does nothing",
        "Check content_type, schema_id and content before the handler runs.",
    ),
    Guarantee.HALTED: Promise(
        "HALTED stays until a command with a recovery operation id comes, which runs",
        "Record the halt; clear it only for a new `recovery_operation_id`.",
    ),
    Guarantee.FORGERIES: Promise(
        "a command that is malformed, misdirected or whose ids do not derive has no effect "
        "and no answer",
        "Derive saga, effect and command id again; compare headers, key and body; know your steps.",
    ),
    Guarantee.POISON: Promise(
        "a record that cannot be handled does not hold the ones behind it",
        "Set it aside (dead letter) and go on; never retry it in place.",
    ),
    Guarantee.DEAD_LETTERED: Promise(
        "what cannot be handled stands unchanged on `<topic>.dlt` with its reason and source",
        "Write key, value and headers as they came, and add the `sagabus-error-*` headers.",
    ),
    Guarantee.KILL_LOSES_NOTHING: Promise(
        "killed with -9 in the middle of a batch and started again, it answers every command",
        "Commit offsets after the work and its answer are durable, never before.",
    ),
    Guarantee.KILL_REPEATS_NOTHING: Promise(
        "what was applied before a kill is not applied again after it, and is told the same way",
        _JOURNAL,
    ),
    Guarantee.KILL_KEEPS_FENCES: Promise(
        "a fence from before a kill holds after it",
        "Keep fences in durable storage, not in memory.",
    ),
}
