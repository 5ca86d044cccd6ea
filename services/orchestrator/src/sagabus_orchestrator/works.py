"""What a batch asks of the orchestrator: records that passed the door, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import asyncpg

from sagabus_bus import Reason
from sagabus_core import ids
from sagabus_core.engine import ResultReceived, StartRequest
from sagabus_messages import (
    Envelope,
    Meta,
    Record,
    Result,
    Start,
    Topics,
    Wakeup,
    age_problem,
    decode,
    source_of,
    unpack_headers,
    verify_identity,
)
from sagabus_messages.errors import MessageError
from sagabus_orchestrator.signatures import UNSIGNED, Signatures

__all__ = [
    "Intake",
    "Rejected",
    "ResultWork",
    "StartWork",
    "SweepWork",
    "WakeupWork",
    "Work",
    "read_batch",
    "received",
    "stored_record",
    "stored_result",
]

AGE_DETAILS = {
    "too_old": "ce_time is older than the inbox remembers: it may have been handled already",
    "too_new": "ce_time is more than 10 minutes ahead of the database clock: check the sender's",
}


@dataclass(frozen=True, slots=True)
class StartWork:
    """A readable start record."""

    record: Record
    meta: Meta
    body: Start
    saga_id: str

    @property
    def request(self) -> StartRequest:
        """The request as the engine takes it."""
        body = self.body
        return StartRequest(
            body.tenant, body.business_key, self.meta.ce_id, body.deadline_at_ms, body.payload
        )


@dataclass(frozen=True, slots=True)
class ResultWork:
    """A readable result whose ids re-derive and whose source is its topic's participant."""

    record: Record
    meta: Meta
    body: Result
    saga_id: str


@dataclass(frozen=True, slots=True)
class WakeupWork:
    """A readable wake-up."""

    record: Record
    meta: Meta
    body: Wakeup
    saga_id: str


@dataclass(frozen=True, slots=True)
class SweepWork:
    """An instance whose armed time has passed without a wake-up; comes from no record.

    `repair`: decide again whatever stands still with nothing that would move it.
    """

    saga_id: str
    traceparent: str | None = None
    repair: bool = False


Work: TypeAlias = StartWork | ResultWork | WakeupWork | SweepWork
"""One thing to decide about one saga."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that is dead-lettered without a claim, so that a forger burns no id."""

    record: Record
    reason: Reason


@dataclass(frozen=True, slots=True)
class Intake:
    """A batch after the door: what to decide, in order, and what was turned away."""

    works: Sequence[Work]
    rejected: Sequence[Rejected] = ()


def read_batch(
    records: Iterable[Record],
    topics: Topics,
    *,
    now_ms: int,
    window_ms: int,
    signatures: Signatures = UNSIGNED,
) -> Intake:
    """Check everything about records that needs no database; `now_ms` may be a second off.

    `signatures` are asked about results: starts come from clients with rights of their own, and a
    wake-up has no authority, it only makes the engine look at the clock.
    """
    works: list[Work] = []
    rejected: list[Rejected] = []
    for record in records:
        try:
            work = _read(record, topics, now_ms, window_ms)
            if isinstance(work, ResultWork):
                signatures.results.check(record)
            works.append(work)
        except MessageError as error:
            rejected.append(Rejected(record, Reason(error.code, error.detail)))
    return Intake(works, rejected)


def stored_record(row: asyncpg.Record) -> Record:
    """Return a record that waited in a table, as it came."""
    return Record(
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        key=row["key"],
        value=row["value"],
        headers=unpack_headers(row["headers"]),
        timestamp_ms=0,
    )


def stored_result(record: Record, topics: Topics) -> ResultWork:
    """Return a result that waited, however old it became. Raises `MessageError`."""
    work = _work(record, decode(record, topics))
    if not isinstance(work, ResultWork):
        raise MessageError("unknown_topic", f"{record.topic} has no results")
    return work


def received(body: Result) -> ResultReceived:
    """Return a result as the engine takes it."""
    return ResultReceived(
        event_id=body.event_id,
        activation=body.activation,
        phase=body.phase,
        attempt=body.attempt,
        status=body.status,
        target=body.target,
        terminal_status=body.terminal_status,
        reason_code=body.reason_code,
        reason_detail=body.reason_detail,
        output=body.output,
    )


def _read(record: Record, topics: Topics, now_ms: int, window_ms: int) -> Work:
    envelope = decode(record, topics)
    problem = age_problem(envelope.meta.ce_time_ms, now_ms, window_ms)
    if problem is not None:
        raise MessageError(problem, AGE_DETAILS[problem])
    return _work(record, envelope)


def _work(record: Record, envelope: Envelope) -> Work:
    meta, body = envelope.meta, envelope.body
    match body:
        case Start():
            saga = ids.saga_id(body.tenant, body.workflow, body.business_key)
            return StartWork(record, meta, body, saga)
        case Result():
            verify_identity(body)
            _require_source(meta)
            return ResultWork(record, meta, body, body.saga_id)
        case Wakeup():
            return WakeupWork(record, meta, body, body.saga_id)
        case _:
            raise MessageError("unknown_topic", f"{record.topic} is not for the orchestrator")


def _require_source(meta: Meta) -> None:
    # The topic is the identity that the broker enforces; a source that differs is a mix-up at best.
    participant = meta.topic.participant
    if participant is None or meta.source != source_of(participant):
        raise MessageError(
            "producer_mismatch", f"ce_source {meta.source!r} does not belong to this result topic"
        )
