"""`sagabus why`: what one saga waits for, and what would move it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

import typer

from sagabus_cli import NotReachable, current_connection, current_output
from sagabus_expressions import CelConditions
from sagabus_messages import format_instant
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.commands.groups import Groups, chosen_readers
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.errors import OrphanedInstances
from sagabus_orchestrator.queries import SagaDetail, SagaReader
from sagabus_orchestrator.why import Asked, Bus, Explanation, Facts, Gatherer, Place, explain
from sagabus_orchestrator.why.kafka import KafkaBus, NoBus
from sagabus_store import Database

__all__ = ["app"]

app = typer.Typer()


@app.command()
def why(
    saga: Annotated[str, typer.Argument(help="Saga id or business key.")],
    tenant: Annotated[str | None, typer.Option(help="The saga's tenant.")] = None,
    workflow: Annotated[str | None, typer.Option(help="The saga's workflow.")] = None,
    group: Groups = None,
) -> None:
    """Say what a saga waits for: who was asked what until when, and what would move it."""
    readers = chosen_readers(group)

    async def work(database: Database) -> tuple[SagaDetail, Facts]:
        detail = await SagaReader(database).find(saga, tenant, workflow)
        watcher = CatalogWatcher(database, CelConditions())
        # Else explained without the names of participants; `doctor` tells what is missing.
        with suppress(OrphanedInstances):
            await watcher.refresh()
        gatherer = Gatherer(database, watcher.current, readers, _bus())
        return detail, await gatherer.facts(detail)

    detail, facts = with_database(work)
    explanation = explain(facts)
    current_output().tell(
        _document(detail, facts, explanation), "\n".join(_lines(detail, explanation))
    )


def _bus() -> Bus:
    try:
        return KafkaBus(current_connection().bus)
    except NotReachable as error:
        return NoBus(error.detail)


def _lines(detail: SagaDetail, explanation: Explanation) -> Iterator[str]:
    head, saga = detail.summary, detail.snapshot
    paused = " (PAUSED)" if head.control == "PAUSED" else ""
    yield f"{head.business_key}  {head.status}{paused}  {head.saga_id}"
    direction = f"{saga.direction.lower()}, revision {saga.revision}"
    yield f"  {head.workflow} {head.version} · tenant {head.tenant} · {direction}"
    for point in explanation.points:
        yield f"  {point.text}"
    yield f"moved by: {explanation.moved_by}"


def _document(detail: SagaDetail, facts: Facts, explanation: Explanation) -> dict[str, object]:
    head, saga = detail.summary, detail.snapshot
    return {
        "saga_id": head.saga_id,
        "tenant": head.tenant,
        "workflow": head.workflow,
        "business_key": head.business_key,
        "status": head.status,
        "control": head.control,
        "direction": saga.direction.value,
        "revision": saga.revision,
        "commands": [_command(item) for item in facts.asked],
        "reasons": {key: reason.value for key, reason in saga.reasons.items()},
        "deferred": facts.deferred,
        "wakeup": {"generation": saga.generation, "armed_at": _instant(saga.armed_at_ms)},
        "outbox": [
            {"topic": r.topic, "ce_id": r.ce_id, "parked": r.parked, "reason": r.reason}
            for r in facts.records
        ],
        "kafka": {
            "problem": facts.bus.problem,
            "topics": [_place(place) for place in facts.bus.places],
        },
        "findings": [
            {"fault": f.fault, "detail": f.detail, "repaired": f.repaired} for f in facts.findings
        ],
        "points": [{"about": p.about, "text": p.text} for p in explanation.points],
        "waits_for": explanation.waits_for,
        "moved_by": explanation.moved_by,
    }


def _command(item: Asked) -> dict[str, object]:
    return {
        "activation": item.path,
        "step": item.step,
        "participant": item.participant,
        "phase": item.channel.phase.value,
        "target": item.channel.target.value if item.channel.target else None,
        "attempt": item.attempt,
        "command_id": item.command_id,
        "deadline_at": _instant(item.deadline_at_ms),
        "retry_at": _instant(item.retry_at_ms),
        "budget_at": _instant(item.budget_at_ms),
    }


def _place(place: Place) -> dict[str, object]:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "group": place.group,
        "live_members": place.members,
        "committed": place.committed,
        "end": place.end,
    }


def _instant(at_ms: int | None) -> str | None:
    return format_instant(at_ms) if at_ms is not None else None
