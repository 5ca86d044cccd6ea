"""`sagabus pause|resume|cancel|retry|record-outcome|close`: management operations on one saga."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, TypeAlias

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
from sagabus_orchestrator.commands.session import actor, with_database
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
Attest = Annotated[
    str,
    typer.Option(
        help="What is true: STEP=SUCCEEDED|REJECTED|CANCELLED, "
        "undo:STEP=HAPPENED|NOT_HAPPENED, branch:CHOICE=NAME, payload:STEP=@file.json, "
        "output:STEP=@file.json."
    ),
]
Evidence = Annotated[str, typer.Option(help="What that rests on.")]
Workflow = Annotated[str | None, typer.Option(help="Its workflow, where keys are ambiguous.")]
Build: TypeAlias = Callable[[Operation, Definition], ManagementEvent]
Make: TypeAlias = Callable[..., Build]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The options of every operation."""

    saga: Saga
    reason: Why
    operation_id: OperationId = None
    tenant: Tenant = None
    workflow: Workflow = None
    expected_revision: Revision = None
    dry_run: DryRun = False

    @property
    def operation(self) -> Operation:
        chosen = self.operation_id or str(uuid.uuid4())
        return Operation(chosen, actor(), self.reason, self.expected_revision)


def _operation(app: typer.Typer) -> Callable[[Make], Make]:
    """Make a command with the options of every operation, and those of the function itself."""
    common = signature(_Asked, eval_str=True).parameters.values()

    def register(make: Make) -> Make:
        own = list(signature(make, eval_str=True).parameters.values())

        @wraps(make)
        def command(**given: str) -> None:
            build = make(**{p.name: given.pop(p.name) for p in own})
            _perform(_Asked(**given), build)  # type: ignore[arg-type]  # as typer read them

        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*common, *own)]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command()(command)
        return make

    return register


@_operation(pause_app)
def pause() -> Build:
    """Hold a saga: nothing is issued, deadlines stand still until `resume`."""
    return lambda operation, _: Pause(operation)


@_operation(resume_app)
def resume() -> Build:
    """Let a paused saga go on: what came meanwhile is applied first."""
    return lambda operation, _: Resume(operation)


@_operation(cancel_app)
def cancel() -> Build:
    """Turn a saga back, as long as no pivot has succeeded."""
    return lambda operation, _: Cancel(operation)


@_operation(retry_app)
def retry() -> Build:
    """Issue again what is open in a saga that needs a person, with fresh budgets."""
    return lambda operation, _: Retry(operation)


@_operation(close_app)
def close() -> Build:
    """Close a saga by hand without claiming a result; off unless the deployment allows it."""
    return lambda operation, _: ManualClose(operation)


@_operation(record_outcome_app)
def record_outcome(attest: Attest, evidence: Evidence) -> Build:
    """Attest an outcome in a saga that needs a person; then the engine decides again."""
    return lambda operation, definition: RecordOutcome(
        operation, read_attestation(attest, definition), evidence
    )


def _perform(asked: _Asked, build: Build) -> None:
    connection = current_connection()
    operation = asked.operation

    async def work(database: Database) -> tuple[str, OperationOutcome | Preview]:
        found = await SagaReader(database).find(asked.saga, asked.tenant, asked.workflow)
        head = found.summary
        watcher = CatalogWatcher(database, CelConditions())
        await watcher.refresh()
        event = build(operation, _definition_of(watcher, found))
        operations = _operations(database, connection, watcher)
        if asked.dry_run:
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
