"""`sagabus audit verify`: whether every journal is what was written, and what was published."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any

import typer

from sagabus_cli import FailedOutcome, UsageError, current_connection, current_output
from sagabus_orchestrator.audit.findings import Fault, Report, Scope
from sagabus_orchestrator.audit.published import call_witness
from sagabus_orchestrator.audit.unsealing import prove_seals
from sagabus_orchestrator.audit.verify import Verifier
from sagabus_orchestrator.commands.session import utc, with_database
from sagabus_orchestrator.errors import NotFound
from sagabus_orchestrator.queries import SagaReader
from sagabus_store import Database

__all__ = ["verify"]

_EVERY = 1_000


def verify(
    saga: Annotated[str | None, typer.Argument(help="Saga id or business key.")] = None,
    since: Annotated[
        datetime | None, typer.Option(help="Only sagas that changed at or after this time (UTC).")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every saga.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Compare with nothing that was published.")
    ] = False,
    seal: Annotated[
        list[str] | None,
        typer.Option(help="With --all: a seal of the audit from the log, SEQ:HEAD; repeatable."),
    ] = None,
) -> None:
    """Prove journals against sagas, archive, audit and Kafka.

    Exit code 1 if something does not hold; of each saga the first thing is named. Heads that the
    lifecycle topic no longer keeps cannot be compared; how many is told.

    Reads the database and Kafka themselves, not through the API, so that it trusts no process.
    """
    if (saga is not None) + (since is not None) + everything != 1:
        raise UsageError("usage", "name one saga, or --since a time, or --all")
    if seal and not everything:
        raise UsageError("usage", "--seal goes with --all")
    logged = dict(map(_seal, seal or ()))

    async def work(database: Database) -> Report:
        scope = Scope(await _saga_id(database, saga), utc(since))
        if offline:
            report = await Verifier(database, scope, _Progress()).prove()
        else:
            report = await _prove(database, scope, widely=False)
            if scope.saga_id and any(b.fault is Fault.NOT_PUBLISHED for b in report.breaks):
                report = await _prove(database, scope, widely=True)
        if everything:
            await prove_seals(database, logged, report)
        if saga is not None and not report.sagas + report.deleted:
            raise NotFound("not_found", f"no table and no event knows of the saga {saga}")
        return report

    _tell(with_database(work), offline=offline)


def _seal(text: str) -> tuple[int, bytes]:
    seq, _, head = text.partition(":")
    try:
        return int(seq), bytes.fromhex(head)
    except ValueError as cause:
        raise UsageError("usage", f"{text!r}: write SEQ:HEAD as `audit.sealed` tells it") from cause


async def _prove(database: Database, scope: Scope, *, widely: bool) -> Report:
    """Prove by what outbox and Kafka say; `widely`: in all partitions of the topic."""
    connection, progress = current_connection(), _Progress()
    source = (database, connection.bus, connection.topics)
    with await call_witness(*source, scope, progress, widely=widely) as witness:
        return await Verifier(database, scope, progress, witness).prove()


class _Progress:
    """Says now and then how far it is."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, report: Report) -> None:
        if report.to_read:
            self._tell(report.read, f"{report.read} of {report.to_read} lifecycle events read")
        else:
            counts = f"{report.facts} facts, {report.compared} published heads"
            self._tell(report.sagas, f"{report.sagas} sagas, {counts}")

    def _tell(self, done: int, text: str) -> None:
        if done < self._told:
            self._told = 0  # the next part of the work
        if done - self._told >= _EVERY:
            self._told = done
            current_output().note(text)


async def _saga_id(database: Database, name: str | None) -> str | None:
    """Return whose id is meant; one that is named by it may be missing: that is to be proved."""
    if name is None:
        return None
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return (await SagaReader(database).find(name)).summary.saga_id


def _tell(report: Report, *, offline: bool) -> None:
    compared = (
        "compared with nothing that was published"
        if offline
        else f"{report.compared} published heads compared, {report.waiting} not published yet, "
        f"{report.not_compared} no longer kept"
    )
    lines = [
        *(f"BROKEN {found}" for found in report.breaks),
        f"{report.sagas} sagas ({report.archived} archived), {report.facts} facts, {compared}",
    ]
    if report.audit_rows:
        lines.append(f"{report.audit_rows} rows of the audit, {report.unsealed} not sealed yet")
    if report.deleted:
        lines.append(f"{report.deleted} ended sagas were deleted: nothing is left to prove")
    lines.append(f"{report.broken} things do not hold" if report.broken else "everything holds")
    current_output().tell(_document(report), "\n".join(lines))
    if report.broken:
        raise typer.Exit(FailedOutcome.exit_code)


def _document(report: Report) -> dict[str, Any]:
    counts = ("sagas", "facts", "archived", "deleted", "broken")
    published = ("compared", "waiting", "not_compared", "audit_rows", "unsealed")
    return {
        **{name: getattr(report, name) for name in (*counts, *published)},
        "breaks": [
            {
                "saga_id": found.saga_id,
                "fault": found.fault.value,
                "revision": found.revision,
                "expected": found.expected,
                "found": found.found,
            }
            for found in report.breaks
        ],
    }
