"""Pages of the journal and the audit, both ways."""

from __future__ import annotations

from typing import Final

from sagabus_cli import Api
from sagabus_orchestrator.api.models.evidence import AuditPageAnswer, FactPageAnswer
from sagabus_orchestrator.api.models.fields import at
from sagabus_orchestrator.audit.pages import FactPages, Wanted
from sagabus_orchestrator.audit.trail import Trail
from sagabus_orchestrator.commands.office.ports import Document
from sagabus_orchestrator.commands.session import with_database
from sagabus_store import Database

__all__ = ["DirectEvidence", "RemoteEvidence"]

_PATIENCE_MS: Final = 2_000


class DirectEvidence:
    """Reads the database: whoever may do that sees all tenants."""

    def facts(self, wanted: Wanted, limit: int, cursor: str | None) -> Document:
        """Return a page of the journal of all sagas."""

        async def work(database: Database) -> Document:
            page = await FactPages(database, _PATIENCE_MS).facts(wanted, limit, cursor)
            return FactPageAnswer.of(page, all_tenants=True).model_dump(mode="json")

        return with_database(work)

    def audit(self, wanted: Wanted, limit: int, cursor: str | None) -> Document:
        """Return a page of management operations."""

        async def work(database: Database) -> Document:
            page = await FactPages(database, _PATIENCE_MS).audit(wanted, limit, cursor)
            withheld = await Trail(database).withheld()
            return AuditPageAnswer.of(page, withheld).model_dump(mode="json")

        return with_database(work)


class RemoteEvidence:
    """Asks the API: those tenants that the caller sees."""

    _api: Api

    def facts(self, wanted: Wanted, limit: int, cursor: str | None) -> Document:
        """Return a page of the journal of all sagas."""
        return self._api.get("/v1/journal", _question(wanted, limit, cursor))

    def audit(self, wanted: Wanted, limit: int, cursor: str | None) -> Document:
        """Return a page of management operations."""
        asked = {**_question(wanted, limit, cursor), "outcome": wanted.outcome}
        return self._api.get("/v1/audit", asked)


def _question(wanted: Wanted, limit: int, cursor: str | None) -> dict[str, object]:
    (tenant,) = wanted.tenants or (None,)
    return {
        "tenant": tenant,
        "workflow": wanted.workflow,
        "saga_id": wanted.saga_id,
        "kind": wanted.kind,
        "actor": wanted.actor,
        "since": None if wanted.since is None else at(wanted.since),
        "until": None if wanted.until is None else at(wanted.until),
        "limit": limit,
        "cursor": cursor,
    }
