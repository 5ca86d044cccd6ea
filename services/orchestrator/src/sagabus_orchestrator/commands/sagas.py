"""`sagabus list` and `sagabus show`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from sagabus_cli import current_output, options_of
from sagabus_core.engine import Activation, Member
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import format_instant
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.commands.text import saga_text
from sagabus_orchestrator.queries import Page, SagaDetail, SagaFilter, SagaReader, SagaSummary
from sagabus_store import Database

__all__ = ["list_app", "show_app"]

list_app = typer.Typer()
show_app = typer.Typer()

Tenant = Annotated[str | None, typer.Option(help="Only this tenant.")]
Workflow = Annotated[str | None, typer.Option(help="Only this workflow.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The options of `list`."""

    tenant: Tenant = None
    workflow: Workflow = None
    status: Annotated[
        list[SagaStatus] | None, typer.Option(help="Only this status; may be given several times.")
    ] = None
    key: Annotated[str | None, typer.Option(help="Only keys that begin like this.")] = None
    archived: Annotated[bool, typer.Option("--archived", help="Those of the archive too.")] = False
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Sagas of one page.")] = 50
    cursor: Annotated[str | None, typer.Option(help="Go on after a page: its next cursor.")] = None


@list_app.command()
@options_of(_Asked)
def list_sagas(asked: _Asked) -> None:
    """List sagas, newest first."""
    wanted = SagaFilter(
        asked.tenant, asked.workflow, asked.status, asked.key, archived=asked.archived
    )

    async def work(database: Database) -> Page:
        return await SagaReader(database).page(wanted, asked.limit, asked.cursor)

    page = with_database(work)
    output = current_output()
    output.table(
        {"sagas": [_summary(saga) for saga in page.sagas], "next_cursor": page.next_cursor},
        ("business key", "workflow", "status", "rev", "started", "took", "id"),
        [_row(saga) for saga in page.sagas],
        empty="no saga" if asked.archived else "no saga (those of the archive: --archived)",
    )
    if page.next_cursor:
        output.note(f"more: --cursor {page.next_cursor}")


@show_app.command()
def show(
    sagas: Annotated[list[str], typer.Argument(help="Saga ids or business keys.")],
    tenant: Tenant = None,
    workflow: Workflow = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Tell every fact of the journal, derived ones too.")
    ] = False,
) -> None:
    """Show sagas: status, steps with their attempts, variables, plan, and what happened when."""

    async def work(database: Database) -> list[SagaDetail]:
        reader = SagaReader(database)
        return [await reader.find(name, tenant, workflow) for name in sagas]

    found = with_database(work)
    documents = [_document(detail) for detail in found]
    text = "\n\n".join(saga_text(detail, everything=everything) for detail in found)
    current_output().tell(documents[0] if len(found) == 1 else {"sagas": documents}, text)


def _row(saga: SagaSummary) -> tuple[str, ...]:
    return (
        saga.business_key,
        f"{saga.workflow} {saga.version}",
        _standing(saga),
        str(saga.revision),
        f"{saga.created_at:%Y-%m-%d %H:%M:%S}",
        f"{(saga.updated_at - saga.created_at).total_seconds():.3f} s",
        saga.saga_id,
    )


def _standing(saga: SagaSummary) -> str:
    if saga.archived_at is not None:
        return f"{saga.status} (archived)"
    return f"{saga.status} (PAUSED)" if saga.control == "PAUSED" else saga.status


def _summary(saga: SagaSummary) -> dict[str, object]:
    return {
        "saga_id": saga.saga_id,
        "tenant": saga.tenant,
        "workflow": saga.workflow,
        "business_key": saga.business_key,
        "definition_version": saga.version,
        "status": saga.status,
        "control": saga.control,
        "revision": saga.revision,
        "created_at": saga.created_at.isoformat(),
        "updated_at": saga.updated_at.isoformat(),
        "archived_at": saga.archived_at.isoformat() if saga.archived_at else None,
    }


def _document(detail: SagaDetail) -> dict[str, object]:
    saga = detail.snapshot
    return {
        **_summary(detail.summary),
        "definition_digest": detail.definition_digest,
        "direction": saga.direction.value,
        "abort": {"reason": saga.abort.reason, "cause": saga.abort.cause} if saga.abort else None,
        "deadline_at": _instant(saga.deadline_at_ms),
        "variables": dict(saga.variables),
        "steps": _tracks(saga.activations),
        "undo": _tracks(saga.members),
        "plan": {"version": saga.plan.version, "members": list(saga.plan.members)}
        if saga.plan
        else None,
        "branches": dict(saga.branches),
        "reasons": {key: reason.value for key, reason in saga.reasons.items()},
        "armed_at": _instant(saga.armed_at_ms),
        "journal_head": detail.journal_head,
        "journal": [
            {"revision": fact.revision, "ordinal": fact.ordinal, **fact.body}
            for fact in detail.facts
        ],
    }


def _tracks(tracks: Mapping[str, Activation] | Mapping[str, Member]) -> list[dict[str, Any]]:
    return [
        {
            "activation": path,
            "state": track.state.value,
            "halted": track.halted,
            "attempts": {channel.name: count for channel, count in track.attempts.items()},
            "answers": dict(track.answers),
            "deadline_at": _instant(track.deadline_at_ms),
            "retry_at": _instant(track.retry_at_ms),
        }
        for path, track in tracks.items()
    ]


def _instant(at_ms: int | None) -> str | None:
    return format_instant(at_ms) if at_ms is not None else None
