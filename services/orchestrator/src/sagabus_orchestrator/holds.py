"""Holds: while one is set, no command of a workflow, or to a participant, is issued.

A saga that would issue such a command is paused instead, in the transaction that would; what came
for it is deferred, as for every paused saga. So a hold adds no state to the engine: its deadlines,
invariants and ways out are those of PAUSED. A start whose first command is held is refused.

A hold of all tenants speaks as the platform in what tenants can read: who set it, and why, stands
in the audit alone, under the id that the journal names.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sagabus_core.engine import Decision, Event, Operation, Pause, Resume, Snapshot, decide
from sagabus_core.vocabulary import Control
from sagabus_orchestrator.entry import Entry, Scene
from sagabus_orchestrator.errors import Held
from sagabus_orchestrator.rows import instant
from sagabus_runtime.failpoints import reach
from sagabus_store import Connection, Queries

__all__ = ["ALL", "PLATFORM", "SQL", "Hold", "Holds", "Take", "forget", "is_held"]

SQL: Final = Queries("sagabus_orchestrator", "sql/holds.sql")
ALL: Final = ""
"""The tenant of a hold of all tenants."""
PLATFORM: Final = "platform"
"""Who acts, as tenants are told, where somebody acts on all of them at once."""
_REASON_MAX: Final = 1_000
Take: TypeAlias = Callable[[Entry, Decision, str | None], None]
"""Makes a decision the present of its saga; the text is the trace that led to it."""


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
        if self.tenant not in {ALL, saga.tenant}:
            return False
        if self.target == "workflow":
            return saga.workflow == self.name and bool(decision.commands)
        return any(command.participant == self.name for command in decision.commands)

    def pause(self, entry: Entry, now_ms: int) -> Decision:
        """Decide that a saga is paused, in the name of whoever set the hold."""
        saga = entry.snapshot
        name = str(uuid.uuid5(uuid.UUID(self.id), f"{saga.saga_id} {saga.revision}"))
        operation = self._told(name, "held", self.actor, self.reason)
        return decide(entry.definition, saga, Pause(operation), now_ms)

    def resume(self, saga_id: str, actor: str, reason: str) -> Resume:
        """Return the resume of a saga that it paused, in the name of whoever released it."""
        name = str(uuid.uuid5(uuid.UUID(self.id), f"release {saga_id}"))
        return Resume(self._told(name, "released", actor, reason))

    def _told(self, name: str, verb: str, actor: str, reason: str) -> Operation:
        """Return an operation as the tenant of the saga may read of it."""
        what = f"{self.target} {self.name} is {verb}"
        if self.tenant == ALL:
            return Operation(name, PLATFORM, f"{what} by the platform (hold {self.id})")
        return Operation(name, actor, f"{what}: {reason}"[:_REASON_MAX])


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

    def decided(
        self, entry: Entry, event: Event, saga: Snapshot, scene: Scene, take: Take
    ) -> Decision | None:
        """Decide; None: a hold keeps back what would be issued, so the saga is paused now."""
        decision = decide(entry.definition, saga, event, scene.now_ms)
        hold = self.stopping(saga, decision)
        if hold is None:
            return decision
        take(entry, hold.pause(entry, scene.now_ms), None)
        self._held.append((hold.id, saga.saga_id))
        return None

    def receive(
        self, entry: Entry, event: Event, scene: Scene, take: Take, traceparent: str | None
    ) -> bool:
        """Apply a result; False: it is to be deferred, the saga is paused by now."""
        saga = entry.snapshot
        if saga.control is Control.PAUSED and not saga.status.is_terminal:
            return False
        decision = self.decided(entry, event, saga, scene, take)
        if decision is not None:
            take(entry, decision, traceparent)
        return decision is not None

    async def write(self, conn: Connection, now_ms: int) -> None:
        """Write which sagas were paused, if any was."""
        if self._held:
            holds, sagas = zip(*self._held, strict=True)
            await conn.execute(SQL["note_held"], list(holds), list(sagas), instant(now_ms))
            await reach("orchestrator.after-held")


async def forget(conn: Connection, saga_id: str) -> None:
    """Forget which holds paused a saga: no release of theirs lets it go on from now on."""
    await conn.execute(SQL["forget_held"], saga_id)
    await reach("orchestrator.after-forget-held")


async def is_held(conn: Connection, saga: Snapshot) -> bool:
    """Say whether a saga is paused, and that by a hold."""
    if saga.control is not Control.PAUSED:
        return False
    return bool(await conn.fetchval(SQL["is_held"], saga.saga_id))
