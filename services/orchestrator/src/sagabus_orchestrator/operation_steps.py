"""Steps of the transaction of an operation, around the engine's decision."""

from __future__ import annotations

from dataclasses import replace

from sagabus_core.engine import (
    Decision,
    ManagementEvent,
    Pause,
    Preview,
    Resume,
    Snapshot,
    decide,
)
from sagabus_core.errors import StaleSnapshot
from sagabus_orchestrator.entry import Entry, Scene
from sagabus_orchestrator.holds import Holds, forget, is_held
from sagabus_orchestrator.recovery import EarlyResults
from sagabus_orchestrator.works import ResultWork, received
from sagabus_store import Connection

__all__ = ["catch_up", "check_revision", "decided", "unchanged", "unexpecting"]


async def decided(conn: Connection, entry: Entry, event: ManagementEvent, now: int) -> Decision:
    """Decide; a pause of a saga that a hold has paused takes it over, and changes nothing else."""
    if isinstance(event, Pause) and await is_held(conn, entry.snapshot):
        # Nothing changes in the saga, but from now on no release of a hold lets it go on.
        check_revision(entry, event)
        await forget(conn, entry.snapshot.saga_id)
        return Decision(entry.snapshot, ())
    return decide(entry.definition, entry.snapshot, event, now)


def check_revision(entry: Entry, event: Pause) -> None:
    """Raise `StaleSnapshot` where another revision was expected, as the engine does."""
    expected, present = event.operation.expected_revision, entry.snapshot.revision
    if expected is not None and expected != present:
        raise StaleSnapshot(
            "stale_snapshot", f"revision {expected} was expected, {present} is present"
        )


def unchanged(saga: Snapshot) -> Preview:
    """Return the preview of an operation that leaves a saga as it is."""
    return Preview(saga.status, saga.status, (), tuple(saga.reasons.values()), saga.plan)


def catch_up(early: EarlyResults, entry: Entry, scene: Scene, holds: Holds) -> list[ResultWork]:
    """Apply the early answers whose command is issued by now; return those that a hold defers."""
    deferred: list[ResultWork] = []

    def take(entry: Entry, decision: Decision, traceparent: str | None) -> None:
        entry.take(decision, scene, traceparent)

    def receive(entry: Entry, work: ResultWork) -> None:
        event, trace = received(work.body), work.meta.traceparent
        if not holds.receive(entry, event, scene, take, trace):
            deferred.append(work)

    early.catch_up(entry, receive)
    return deferred


def unexpecting(event: Resume) -> Resume:
    """Return a resume whose expected revision was found present."""
    return replace(event, operation=replace(event.operation, expected_revision=None))
