"""Holds: while one is set, no command of a workflow, or to a participant, is issued.

A saga that would issue such a command is paused instead, in the transaction that would; what came
for it is deferred, as for every paused saga. So a hold adds no state to the engine: its deadlines,
invariants and ways out are those of PAUSED. A start whose first command is held is refused.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sagabus_core.engine import Decision, Operation, Pause, Snapshot, decide
from sagabus_orchestrator.entry import Entry
from sagabus_orchestrator.errors import Held
from sagabus_orchestrator.rows import instant
from sagabus_runtime.failpoints import reach
from sagabus_store import Connection, Queries

__all__ = ["SQL", "Hold", "Holds", "forget"]

SQL: Final = Queries("sagabus_orchestrator", "sql/holds.sql")


@dataclass(frozen=True, slots=True)
class Hold:
    """One switch; `tenant` empty: of all tenants."""

    id: str
    target: str
    name: str
    tenant: str
    actor: str
    reason: str

    def stops(self, saga: Snapshot, decision: Decision) -> bool:
        """Say whether it keeps back a command that a decision would issue."""
        if self.tenant not in {"", saga.tenant}:
            return False
        if self.target == "workflow":
            return saga.workflow == self.name and bool(decision.commands)
        return any(command.participant == self.name for command in decision.commands)

    def pause(self, entry: Entry, now_ms: int) -> Decision:
        """Decide that a saga is paused, in the name of whoever set the hold."""
        saga = entry.snapshot
        name = str(uuid.uuid5(uuid.UUID(self.id), f"{saga.saga_id} {saga.revision}"))
        reason = f"{self.target} {self.name} is held: {self.reason}"
        return decide(entry.definition, saga, Pause(Operation(name, self.actor, reason)), now_ms)


class Holds:
    """The holds that a transaction sees behind its locks, and the sagas that it paused by them."""

    def __init__(self, holds: Sequence[Hold] = ()) -> None:
        self._holds = tuple(holds)
        self._held: list[tuple[str, str]] = []

    @classmethod
    def of(cls, stored: str | None) -> Holds:
        """Return the holds of the column of `present`."""
        return cls([Hold(**each) for each in json.loads(stored)]) if stored else cls()

    def stopping(self, saga: Snapshot, decision: Decision) -> Hold | None:
        """Return the hold that keeps back what a decision would issue, or None."""
        return next((hold for hold in self._holds if hold.stops(saga, decision)), None)

    def check(self, saga: Snapshot, decision: Decision) -> None:
        """Raise `Held` (`issuing_held`) where a hold keeps back what an operation would issue."""
        hold = self.stopping(saga, decision)
        if hold is not None:
            raise Held(
                "issuing_held",
                f"{hold.target} {hold.name} is held by an operator: wait until it is released",
                hold.id,
            )

    def note(self, hold: Hold, saga_id: str) -> None:
        """Note that a saga is paused by a hold."""
        self._held.append((hold.id, saga_id))

    async def write(self, conn: Connection, now_ms: int) -> None:
        """Write which sagas were paused, if any was."""
        if self._held:
            holds, sagas = zip(*self._held, strict=True)
            await conn.execute(SQL["note_held"], list(holds), list(sagas), instant(now_ms))
            await reach("orchestrator.after-held")


async def forget(conn: Connection, saga_id: str) -> None:
    """Forget who paused a saga that is resumed: a later pause is not theirs to end."""
    await conn.execute(SQL["resumed"], saga_id)
    await reach("orchestrator.after-resumed")
