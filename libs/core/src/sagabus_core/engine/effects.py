"""What a decision asks the shell to write, in the same transaction as the snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from sagabus_core import ids
from sagabus_core.canonical import JsonValue
from sagabus_core.engine.events import Trigger
from sagabus_core.engine.vocabulary import Channel
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, SagaStatus

__all__ = [
    "ArmWakeup",
    "Effect",
    "FactKind",
    "IssueCommand",
    "JournalFact",
    "LifecycleChanged",
    "Metric",
    "MetricName",
]


class IssueCommand(NamedTuple):
    """Send one attempt to the step's participant.

    Ids are derived when they are asked for, so that deciding costs no hashing. The wire needs
    beside this what all commands of a saga share (tenant, workflow, key, digest: the snapshot).
    """

    saga_id: str
    definition_version: int
    activation: str
    step: str
    participant: str
    channel: Channel
    attempt: int
    expires_at_ms: int
    recovery_operation_id: str | None = None
    payload: Payload | None = None

    @property
    def phase(self) -> Phase:
        """What the participant is asked to do."""
        return self.channel.phase

    @property
    def target(self) -> Phase | None:
        """What a RESOLVE asks about."""
        return self.channel.target

    @property
    def effect_id(self) -> str:
        """The idempotency key, shared by all attempts of this channel."""
        return ids.effect_id(
            self.saga_id, self.definition_version, self.activation, self.phase, self.target
        )

    @property
    def command_id(self) -> str:
        """The id of this attempt."""
        return ids.command_id(self.effect_id, self.attempt)


@dataclass(frozen=True, slots=True)
class ArmWakeup:
    """Ask the timer service for one wake-up; `at_ms` None disarms. Generations only grow."""

    saga_id: str
    generation: int
    at_ms: int | None


class FactKind(StrEnum):
    """What a journal fact is about."""

    STARTED = "started"
    ANSWER = "answer"
    STATE = "state"
    COMMAND = "command"
    STATUS = "status"
    CONTROL = "control"
    ABORT = "abort"
    BRANCH = "branch"
    REASON = "reason"
    PLAN = "plan"
    DEADLINE = "deadline"
    ATTESTED = "attested"
    WAKEUP = "wakeup"


class JournalFact(NamedTuple):
    """Immutable evidence of one change: what, from, to, by which trigger, when.

    Facts of one decision share its revision and are numbered by `ordinal` from 0.
    """

    kind: FactKind
    subject: str | None
    before: str | None
    after: str | None
    ordinal: int
    trigger: Trigger
    at_ms: int
    detail: Mapping[str, JsonValue] | None = None
    output: Payload | None = None

    @property
    def trigger_id(self) -> str:
        """The trigger's id; for every further fact of the decision one derived from it."""
        return ids.trigger_id(self.trigger.id, self.ordinal) if self.ordinal else self.trigger.id


@dataclass(frozen=True, slots=True)
class LifecycleChanged:
    """Tell the world: at most one per decision, only when the status changed.

    The one exception: a deadline that passes after the abort or the pivot (`reason_code`
    `instance_deadline_passed`) is told although the status stays.
    """

    saga_id: str
    revision: int
    status: SagaStatus
    reason_code: str | None
    occurred_at_ms: int
    output: Payload | None = None


class MetricName(StrEnum):
    """Counters that only the engine can raise."""

    CONFLICT = "outcome_conflict"
    DEADLINE_PASSED = "instance_deadline_passed"
    RETRY = "retry_scheduled"
    SUPERSEDED = "answer_not_routed"


@dataclass(frozen=True, slots=True)
class Metric:
    """Add one to a counter; `label` is the reason, phase or step concerned."""

    name: MetricName
    label: str


Effect: TypeAlias = IssueCommand | ArmWakeup | JournalFact | LifecycleChanged | Metric
"""Everything that a decision can ask for."""
