"""`sagabus pause|resume|cancel|retry|record-outcome|close`: management operations on one saga."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, TypeAlias

import typer

from sagabus_cli import current_output
from sagabus_core.engine import OperationKind
from sagabus_orchestrator.commands.office import Document, Order, SagaName, open_office

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
Ask: TypeAlias = Callable[..., OperationKind]


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


def _operation(app: typer.Typer) -> Callable[[Ask], Ask]:
    """Make a command with the options of every operation, and those of the function itself."""
    common = signature(_Asked, eval_str=True).parameters.values()

    def register(ask: Ask) -> Ask:
        own = list(signature(ask, eval_str=True).parameters.values())

        @wraps(ask)
        def command(**given: str) -> None:
            attested = {p.name: given.pop(p.name) for p in own}
            kind = ask(**attested)
            _perform(_Asked(**given), kind, attested)  # type: ignore[arg-type]  # as typer read them

        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*common, *own)]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command()(command)
        return ask

    return register


@_operation(pause_app)
def pause() -> OperationKind:
    """Hold a saga: nothing is issued, deadlines stand still until `resume`."""
    return OperationKind.PAUSE


@_operation(resume_app)
def resume() -> OperationKind:
    """Let a paused saga go on: what came meanwhile is applied first."""
    return OperationKind.RESUME


@_operation(cancel_app)
def cancel() -> OperationKind:
    """Turn a saga back, as long as no pivot has succeeded."""
    return OperationKind.CANCEL


@_operation(retry_app)
def retry() -> OperationKind:
    """Issue again what is open in a saga that needs a person, with fresh budgets."""
    return OperationKind.RETRY


@_operation(close_app)
def close() -> OperationKind:
    """Close a saga by hand without claiming a result; off unless the deployment allows it."""
    return OperationKind.MANUAL_CLOSE


@_operation(record_outcome_app)
def record_outcome(attest: Attest, evidence: Evidence) -> OperationKind:
    """Attest an outcome in a saga that needs a person; then the engine decides again."""
    del attest, evidence  # read by `_operation`
    return OperationKind.RECORD_OUTCOME


def _perform(asked: _Asked, kind: OperationKind, attested: Mapping[str, str]) -> None:
    order = Order(
        kind=kind,
        reason=asked.reason,
        operation_id=asked.operation_id or str(uuid.uuid4()),
        expected_revision=asked.expected_revision,
        dry_run=asked.dry_run,
        **attested,
    )
    with open_office() as office:
        done = office.operate(SagaName(asked.saga, asked.tenant, asked.workflow), order)
    lines = _foreseen(done) if done["dry_run"] else _done(done)
    current_output().tell(done, "\n".join(lines))


def _done(done: Document) -> list[str]:
    again = " (done before, nothing more happened)" if done["repeated"] else ""
    return [
        (
            f"{done['kind']}: {done['saga_id']} is {done['status']}, "
            f"revision {done['revision']}{again}"
        ),
        *(f"  issued {command}" for command in done["commands"]),
        f"  operation id {done['operation_id']}",
    ]


def _foreseen(seen: Document) -> list[str]:
    return [
        f"dry run: {seen['before']} would become {seen['status']}",
        *(f"  would issue {command}" for command in seen["commands"]),
        *(["  to undo: " + ", ".join(seen["undo"])] if seen["undo"] else []),
        *(f"  would need a person: {reason}" for reason in seen["reasons"]),
    ]
