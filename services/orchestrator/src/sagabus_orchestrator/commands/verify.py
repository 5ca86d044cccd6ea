"""`sagabus audit verify`: whether every journal is what was written, and what was published."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from sagabus_cli import FailedOutcome, UsageError, current_connection, current_output
from sagabus_orchestrator.audit.published import published_heads
from sagabus_orchestrator.audit.verify import Report, Scope, Verifier
from sagabus_orchestrator.commands.session import utc, with_database
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
) -> None:
    """Recompute the chains of journals and compare them with snapshots, archive and Kafka.

    Exit code 1 if a chain is broken; its first broken link is named. Heads that the lifecycle
    topic no longer keeps cannot be compared; how many is told.

    Reads the database and Kafka themselves, not through the API, so that it trusts no process.
    """
    if (saga is not None) + (since is not None) + everything != 1:
        raise UsageError("usage", "name one saga, or --since a time, or --all")

    async def work(database: Database) -> Report:
        scope = Scope(await _saga_id(database, saga), utc(since))
        verifier = Verifier(database, scope, _Progress())
        await verifier.chains()
        if not offline:
            connection = current_connection()
            await verifier.published(published_heads(connection.bus, connection.topics))
        return verifier.report

    _tell(with_database(work), offline=offline)


class _Progress:
    """Says now and then how far it is."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, report: Report) -> None:
        done = report.sagas + report.compared
        if done - self._told >= _EVERY:
            self._told = done
            current_output().note(
                f"{report.sagas} sagas, {report.facts} facts, {report.compared} published heads"
            )


async def _saga_id(database: Database, name: str | None) -> str | None:
    if name is None:
        return None
    return (await SagaReader(database).find(name)).summary.saga_id


def _tell(report: Report, *, offline: bool) -> None:
    compared = (
        "compared with nothing that was published"
        if offline
        else f"{report.compared} published heads compared, {report.not_compared} no longer kept"
    )
    lines = [
        *(f"BROKEN {found}" for found in report.breaks),
        f"{report.sagas} sagas ({report.archived} archived), {report.facts} facts, {compared}",
        f"{report.broken} chains are broken" if report.broken else "every chain holds",
    ]
    current_output().tell(_document(report), "\n".join(lines))
    if report.broken:
        raise typer.Exit(FailedOutcome.exit_code)


def _document(report: Report) -> dict[str, Any]:
    names = ("sagas", "facts", "archived", "deleted", "compared", "not_compared", "broken")
    return {
        **{name: getattr(report, name) for name in names},
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
