"""`sagabus pause|resume|cancel|retry|record-outcome|close`: management operations on one saga."""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Callable
from typing import Annotated

import typer

from sagabus_cli import Connection, current_connection, current_output
from sagabus_core.definitions import Definition
from sagabus_core.engine import (
    Cancel,
    IssueCommand,
    ManagementEvent,
    ManualClose,
    Operation,
    Pause,
    Preview,
    RecordOutcome,
    Resume,
    Retry,
)
from sagabus_expressions import CelConditions
from sagabus_orchestrator.catalog import GLOBAL, CatalogWatcher, DefinitionRef
from sagabus_orchestrator.commands.attestations import read_attestation
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.errors import NotFound
from sagabus_orchestrator.operations import OperationOutcome, Operations
from sagabus_orchestrator.queries import SagaDetail, SagaReader
from sagabus_store import Database

__all__ = ["cancel_app", "close_app", "pause_app", "record_outcome_app", "resume_app", "retry_app"]

pause_app, resume_app, cancel_app = typer.Typer(), typer.Typer(), typer.Typer()
retry_app, record_outcome_app, close_app = typer.Typer(), typer.Typer(), typer.Typer()

Saga = Annotated[str, typer.Argument(help="Saga id or business key.")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept in the journal.")]
OperationId = Annotated[
    str | None,
    typer.Option("--operation-id", help="Your id: the same one again does nothing more."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]
Revision = Annotated[
    int | None, typer.Option("--expected-revision", help="Refuse if the saga has moved on.")
]
Tenant = Annotated[str | None, typer.Option(help="The saga's tenant, where keys are ambiguous.")]
Build = Callable[[Operation, Definition], ManagementEvent]


@pause_app.command()
def pause(
    saga: Saga,
    reason: Why,
    operation_id: OperationId = None,
    tenant: Tenant = None,
    expected_revision: Revision = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Hold a saga: nothing is issued, deadlines stand still until `resume`."""
    operation = _operation(reason, operation_id, expected_revision)
    _perform(saga, tenant, operation, lambda o, _: Pause(o), dry_run=dry_run)


@resume_app.command()
def resume(
    saga: Saga,
    reason: Why,
    operation_id: OperationId = None,
    tenant: Tenant = None,
    expected_revision: Revision = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Let a paused saga go on: what came meanwhile is applied first."""
    operation = _operation(reason, operation_id, expected_revision)
    _perform(saga, tenant, operation, lambda o, _: Resume(o), dry_run=dry_run)


@cancel_app.command()
def cancel(
    saga: Saga,
    reason: Why,
    operation_id: OperationId = None,
    tenant: Tenant = None,
    expected_revision: Revision = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Turn a saga back, as long as no pivot has succeeded."""
    operation = _operation(reason, operation_id, expected_revision)
    _perform(saga, tenant, operation, lambda o, _: Cancel(o), dry_run=dry_run)


@retry_app.command()
def retry(
    saga: Saga,
    reason: Why,
    operation_id: OperationId = None,
    tenant: Tenant = None,
    expected_revision: Revision = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Issue again what is open in a saga that needs a person, with fresh budgets."""
    operation = _operation(reason, operation_id, expected_revision)
    _perform(saga, tenant, operation, lambda o, _: Retry(o), dry_run=dry_run)


@close_app.command()
def close(
    saga: Saga,
    reason: Why,
    operation_id: OperationId = None,
    tenant: Tenant = None,
    expected_revision: Revision = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Close a saga by hand without claiming a result; off unless the deployment allows it."""
    operation = _operation(reason, operation_id, expected_revision)
    _perform(saga, tenant, operation, lambda o, _: ManualClose(o), dry_run=dry_run)


@record_outcome_app.command()
def record_outcome(
    saga: Saga,
    attest: Annotated[
        str,
        typer.Option(
            help="What is true: STEP=SUCCEEDED|REJECTED|CANCELLED, "
            "undo:STEP=HAPPENED|NOT_HAPPENED, branch:CHOICE=NAME, payload:STEP=@file.json, "
            "output:STEP=@file.json."
        ),
    ],
    evidence: Annotated[str, typer.Option(help="What that rests on.")],
    reason: Why,
    operation_id: OperationId = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Attest an outcome in a saga that needs a person; then the engine decides again."""

    def build(operation: Operation, definition: Definition) -> ManagementEvent:
        return RecordOutcome(operation, read_attestation(attest, definition), evidence)

    _perform(saga, None, _operation(reason, operation_id, None), build, dry_run=dry_run)


def _operation(reason: str, operation_id: str | None, expected_revision: int | None) -> Operation:
    actor = os.environ.get("SAGABUS_ACTOR") or getpass.getuser()
    return Operation(operation_id or str(uuid.uuid4()), actor, reason, expected_revision)


def _perform(
    saga: str, tenant: str | None, operation: Operation, build: Build, *, dry_run: bool
) -> None:
    connection = current_connection()

    async def work(database: Database) -> tuple[str, OperationOutcome | Preview]:
        found = await SagaReader(database).find(saga, tenant)
        head = found.summary
        watcher = CatalogWatcher(database, CelConditions())
        await watcher.refresh()
        event = build(operation, _definition_of(watcher, found))
        operations = _operations(database, connection, watcher)
        if dry_run:
            return head.saga_id, await operations.dry_run(head.tenant, head.saga_id, event)
        return head.saga_id, await operations.perform(head.tenant, head.saga_id, event)

    saga_id, outcome = with_database(work)
    if isinstance(outcome, Preview):
        _tell_preview(saga_id, outcome)
    else:
        _tell_outcome(operation, outcome)


def _operations(database: Database, connection: Connection, watcher: CatalogWatcher) -> Operations:
    allowed = os.environ.get("SAGABUS_MANUAL_CLOSE_ENABLED", "").lower() in {"1", "true", "yes"}
    return Operations(database, connection.topics, watcher, manual_close_enabled=allowed)


def _definition_of(watcher: CatalogWatcher, saga: SagaDetail) -> Definition:
    """Return the definition that a saga runs on: its tenant may have published another since."""
    head = saga.summary
    for scope in (head.tenant, GLOBAL):
        definition = watcher.current.get(DefinitionRef(scope, head.workflow, head.version))
        if definition is not None and definition.digest == saga.definition_digest:
            return definition
    raise NotFound("not_found", f"the definition {head.workflow} {head.version} is not here")


def _tell_outcome(operation: Operation, outcome: OperationOutcome) -> None:
    again = " (done before, nothing more happened)" if outcome.repeated else ""
    lines = [
        (
            f"{outcome.kind}: {outcome.saga_id} is {outcome.status}, "
            f"revision {outcome.revision}{again}"
        ),
        *(f"  issued {command}" for command in outcome.commands),
        f"  operation id {operation.operation_id}",
    ]
    document = {
        **outcome.body(),
        "operation_id": operation.operation_id,
        "repeated": outcome.repeated,
    }
    current_output().tell(document, "\n".join(lines))


def _tell_preview(saga_id: str, preview: Preview) -> None:
    commands = [_describe(command) for command in preview.commands]
    members = list(preview.plan.members) if preview.plan is not None else []
    lines = [
        f"dry run: {preview.before} would become {preview.after}",
        *(f"  would issue {command}" for command in commands),
        *(["  to undo: " + ", ".join(members)] if members else []),
        *(f"  would need a person: {reason}" for reason in preview.reasons),
    ]
    document = {
        "saga_id": saga_id,
        "dry_run": True,
        "before": preview.before,
        "after": preview.after,
        "commands": commands,
        "reasons": list(preview.reasons),
        "undo": members,
    }
    current_output().tell(document, "\n".join(lines))


def _describe(command: IssueCommand) -> str:
    target = f" of {command.target}" if command.target else ""
    return f"{command.phase}{target} {command.activation} attempt {command.attempt}"
