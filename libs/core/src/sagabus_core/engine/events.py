"""What can happen to a saga. Every event has passed the checks of its door already.

Authenticity, ids, owner, tenant, workflow, version and digest of a result are checked by the
shell; permissions, rate budgets and repeated operation ids too. What only the snapshot can tell
(was this attempt ever issued?) is checked by `decide`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from sagabus_core.engine.records import make
from sagabus_core.engine.vocabulary import ForwardState, OperationKind, TriggerKind
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus

__all__ = [
    "Attestation",
    "AttestedBranch",
    "AttestedOutcome",
    "AttestedOutput",
    "AttestedPayload",
    "AttestedUndo",
    "Cancel",
    "Event",
    "ManagementEvent",
    "ManualClose",
    "Operation",
    "Pause",
    "RecordOutcome",
    "ResultReceived",
    "Resume",
    "Retry",
    "StartRequest",
    "Sweep",
    "Trigger",
    "WakeupDelivered",
]

_RESULT: Final = TriggerKind.RESULT


class Trigger(NamedTuple):
    """Who or what caused a transition: `id` is the event, wake-up or operation id."""

    kind: TriggerKind
    id: str
    actor: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A start whose key is unknown so far and whose definition may start.

    `start_id` is the ce_id of the start record (or the id of the HTTP request).
    """

    tenant: str
    business_key: str
    start_id: str
    deadline_at_ms: int | None = None
    payload: Payload | None = None


@dataclass(frozen=True, slots=True)
class ResultReceived:
    """A participant's answer to one attempt. `activation` is the path."""

    event_id: str
    activation: str
    phase: Phase
    attempt: int
    status: ResultStatus
    target: Phase | None = None
    terminal_status: TerminalStatus | None = None
    reason_code: str | None = None
    reason_detail: str | None = None
    output: Payload | None = None

    @property
    def trigger(self) -> Trigger:
        """This result as a cause."""
        return make(Trigger, (_RESULT, self.event_id, None, None))


@dataclass(frozen=True, slots=True)
class WakeupDelivered:
    """The timer service fired this generation. Any but the armed one changes nothing."""

    event_id: str
    generation: int

    @property
    def trigger(self) -> Trigger:
        """This wake-up as a cause."""
        return Trigger(TriggerKind.WAKEUP, self.event_id)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The second line: the armed time has passed and no wake-up came.

    `event_id` is `ids.wakeup_id(saga, armed generation)`. Changes nothing while the armed time
    lies in the future or nothing is armed.
    """

    event_id: str

    @property
    def trigger(self) -> Trigger:
        """This sweep as a cause."""
        return Trigger(TriggerKind.SWEEP, self.event_id)


@dataclass(frozen=True, slots=True)
class Operation:
    """Who asks for a management operation, why, under which id, and what they had seen.

    With `expected_revision`, another present revision raises `StaleSnapshot`.
    """

    operation_id: str
    actor: str
    reason: str
    expected_revision: int | None = None

    @property
    def trigger(self) -> Trigger:
        """This operation as a cause."""
        return Trigger(TriggerKind.OPERATION, self.operation_id, self.actor, self.reason)


@dataclass(frozen=True, slots=True)
class Pause:
    """Hold: nothing is issued and deadlines are suspended until `Resume`."""

    operation: Operation

    @property
    def kind(self) -> OperationKind:
        """Which operation this is."""
        return OperationKind.PAUSE


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on: overdue deadlines act, then commands are issued.

    The shell first calls `decide` with each deferred result, in its order, on the still PAUSED
    snapshot (they take effect there, and issue nothing), then with `Resume`; all in one
    transaction under one lock.
    """

    operation: Operation

    @property
    def kind(self) -> OperationKind:
        """Which operation this is."""
        return OperationKind.RESUME


@dataclass(frozen=True, slots=True)
class Cancel:
    """Abort before a pivot has succeeded; also clears what only the way forward needed."""

    operation: Operation

    @property
    def kind(self) -> OperationKind:
        """Which operation this is."""
        return OperationKind.CANCEL


@dataclass(frozen=True, slots=True)
class Retry:
    """Leave MANUAL by issuing again whatever is open, with fresh budgets."""

    operation: Operation

    @property
    def kind(self) -> OperationKind:
        """Which operation this is."""
        return OperationKind.RETRY


@dataclass(frozen=True, slots=True)
class AttestedOutcome:
    """The forward effect of `activation` stands like this: SUCCEEDED, REJECTED or CANCELLED."""

    activation: str
    outcome: ForwardState
    output: Payload | None = None


@dataclass(frozen=True, slots=True)
class AttestedUndo:
    """The undo of plan member `activation` has happened, or has not (it is issued again)."""

    activation: str
    happened: bool


@dataclass(frozen=True, slots=True)
class AttestedBranch:
    """The choice at this path takes this branch."""

    choice: str
    branch: str


@dataclass(frozen=True, slots=True)
class AttestedPayload:
    """The EXECUTE of `activation` carries this payload."""

    activation: str
    payload: Payload


@dataclass(frozen=True, slots=True)
class AttestedOutput:
    """The success of `activation` is to be read as if it had this output."""

    activation: str
    output: Payload


Attestation: TypeAlias = (
    AttestedOutcome | AttestedUndo | AttestedBranch | AttestedPayload | AttestedOutput
)
"""What an operator vouches for."""


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """An operator attests what happened, with evidence; then the engine decides again.

    `clock_skew_ms` is the configured bound between any participant's clock and the service's: a
    negative outcome needs the fence, or every EXECUTE expired by more than it.
    """

    operation: Operation
    attestation: Attestation
    evidence: str
    clock_skew_ms: int = 60_000

    @property
    def kind(self) -> OperationKind:
        """Which operation this is."""
        return OperationKind.RECORD_OUTCOME


@dataclass(frozen=True, slots=True)
class ManualClose:
    """MANUAL to MANUALLY_CLOSED; the shell allows it only behind a deployment switch."""

    operation: Operation

    @property
    def kind(self) -> OperationKind:
        """Which operation this is."""
        return OperationKind.MANUAL_CLOSE


ManagementEvent: TypeAlias = Pause | Resume | Cancel | Retry | RecordOutcome | ManualClose
"""What an operator can do."""

Event: TypeAlias = ResultReceived | WakeupDelivered | Sweep | ManagementEvent
"""Everything that `decide` takes."""
