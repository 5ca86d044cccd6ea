"""What a caller gives and gets: starts, handles, outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sagabus_core.payload import Payload
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import START_REFUSED

__all__ = ["Outcome", "OutcomeStatus", "SagaHandle", "StartCommand"]

OutcomeStatus = SagaStatus | Literal["START_REFUSED"]
"""Where a saga stands, or that it was never started."""


@dataclass(frozen=True, slots=True)
class StartCommand:
    """Begin the saga of a business key; the newest active version where none is named.

    `start_id` names this request: sent again under the same id it is absorbed. None takes a new
    one. `deadline_at_ms` is the instance deadline, epoch milliseconds.
    """

    tenant: str
    workflow: str
    business_key: str
    payload: Payload | None = None
    deadline_at_ms: int | None = None
    version: int | None = None
    start_id: str | None = None


@dataclass(frozen=True, slots=True)
class SagaHandle:
    """A start that is in Kafka; `started_at_ms` is this client's clock when it was sent."""

    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    start_id: str
    started_at_ms: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the lifecycle topic last said about a start.

    `reason_code` of a refusal is the stable code. `occurred_at_ms` is the service's clock.
    """

    handle: SagaHandle
    status: OutcomeStatus
    occurred_at_ms: int
    reason_code: str | None = None
    output: Payload | None = None
    revision: int | None = None

    @property
    def is_refused(self) -> bool:
        """Whether nothing was started."""
        return self.status == START_REFUSED

    @property
    def is_terminal(self) -> bool:
        """Whether the saga has ended."""
        return isinstance(self.status, SagaStatus) and self.status.is_terminal

    @property
    def needs_person(self) -> bool:
        """Whether the saga waits for an operator."""
        return self.status is SagaStatus.MANUAL_INTERVENTION

    @property
    def is_settled(self) -> bool:
        """Whether nothing more happens by itself: ended, refused, or waiting for an operator."""
        return self.is_refused or self.is_terminal or self.needs_person
