"""Handler classes: what a participant team derives from.

A `LocalStep` does its work in the participant's own Postgres: everything through `ctx.conn`, and
only a `Succeeded` leaves anything behind. CANCEL and RESOLVE are answered by the SDK.

An `ExternalStep` calls something that no transaction covers, with `ctx.idempotency_key`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from sagabus_core.canonical import JsonValue
from sagabus_core.vocabulary import Phase
from sagabus_participant.errors import RegistrationError
from sagabus_participant.outcomes import (
    Cancelled,
    Compensated,
    Executed,
    ExecutedLocally,
    Resolved,
    Undone,
)
from sagabus_store import Connection, Database

__all__ = ["Context", "ExternalContext", "ExternalStep", "Input", "LocalContext", "LocalStep"]

Input = TypeVar("Input", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Which attempt at which effect of which saga this is.

    `idempotency_key` is the effect id of the effect in question, the same for every attempt;
    `execute_key` that of the forward effect (what `compensate` undoes). `output` is the recorded
    output of the forward effect, None while there is none. `target` says what RESOLVE asks about.
    """

    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    step: str
    activation: str
    phase: Phase
    target: Phase | None
    attempt: int
    idempotency_key: str
    execute_key: str
    expires_at_ms: int
    output: JsonValue = None
    recovery_operation_id: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalContext(Context):
    """A context inside the transaction of the journal, the inbox and the outbox.

    `conn` runs in a savepoint of its own: an error or any answer but `Succeeded` undoes it.
    """

    conn: Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalContext(Context):
    """A context outside any transaction; `db` is the participant's own database.

    Its intent is durable, its receipt not yet: a crash in between is found out about.
    """

    db: Database


class LocalStep(ABC, Generic[Input]):
    """A step whose whole effect is in this participant's database."""

    @abstractmethod
    async def execute(self, ctx: LocalContext, order: Input) -> ExecutedLocally:
        """Apply the effect through `ctx.conn`."""

    async def execute_many(
        self, batch: Sequence[tuple[LocalContext, Input]]
    ) -> Sequence[ExecutedLocally]:
        """Apply the effects of several orders at once: optional, for steps with many commands.

        One answer per order, in their order, each what `execute` would say and do: a statement
        for all instead of one for each. The contexts share one `conn`. Unless every answer is
        `Succeeded`, everything is undone and `execute` called for each: it stays the reference.
        The step's `timeout_ms` bounds the whole call; one that takes longer is undone as well, and
        each `execute` has the same time for itself.
        """
        del batch
        raise _not_defined(self, "execute_many")

    async def compensate(self, ctx: LocalContext) -> Undone:
        """Undo what `execute` did; called only after a recorded success."""
        del ctx
        raise _not_defined(self, "compensate")


class ExternalStep(ABC, Generic[Input]):
    """A step whose effect is outside: an HTTP call, a device, another system."""

    @abstractmethod
    async def execute(self, ctx: ExternalContext, order: Input) -> Executed:
        """Call the outside. Whatever goes wrong here is answered UNKNOWN, never guessed."""

    async def compensate(self, ctx: ExternalContext) -> Compensated:
        """Undo what `execute` did; called only after a recorded success."""
        del ctx
        raise _not_defined(self, "compensate")

    async def cancel(self, ctx: ExternalContext) -> Cancelled:
        """Make the outside refuse the key for ever, or say that it is too late."""
        del ctx
        raise _not_defined(self, "cancel")

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        """Find out what became of the effect that `ctx.target` names.

        `Rejected` about EXECUTE only once the outside can never apply the key any more.
        """
        del ctx
        raise _not_defined(self, "resolve")


def _not_defined(step: object, method: str) -> RegistrationError:
    """Return the error of a call that admission never makes: the step has no such handler."""
    return RegistrationError("handler_missing", f"{type(step).__name__} defines no {method}")
