"""Limits of tenants, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from sagabus_cli import Api, actor
from sagabus_orchestrator.api.models.quotas import LimitAnswer, QuotaAnswer, QuotaList
from sagabus_orchestrator.audit.trail import By
from sagabus_orchestrator.commands.office.ports import Document, Limited
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.tenants import Tenants
from sagabus_store import Database

__all__ = ["DirectLimits", "RemoteLimits"]


class DirectLimits:
    """Reads and changes the database as SAGABUS_ACTOR, or the user of this machine."""

    def quotas(self, behind: str, limit: int) -> Document:
        """Return the limits of some tenants."""

        async def work(database: Database) -> Document:
            found = await Tenants(database).limits(None, behind, limit + 1)
            return QuotaList.of(found, limit).model_dump(mode="json")

        return with_database(work)

    def quota(self, tenant: str) -> Document:
        """Return what a tenant may do and has used."""
        return with_database(lambda database: _answer(Tenants(database), tenant))

    def set_quota(
        self, tenant: str, most: Mapping[Limited, int], window_ms: int, reason: str
    ) -> Document:
        """Set limits of a tenant."""
        by = By(actor(), reason)

        async def work(database: Database) -> Document:
            tenants = Tenants(database)
            for what, limit in most.items():
                if what == "running":
                    await tenants.set_quota(tenant, limit, by)
                else:
                    await tenants.set_rate(tenant, what, limit, window_ms, by)
            return await _answer(tenants, tenant)

        return with_database(work)

    def remove_quota(self, tenant: str, what: Sequence[Limited], reason: str) -> Document:
        """Take limits of a tenant away."""
        by = By(actor(), reason)

        async def work(database: Database) -> Document:
            tenants = Tenants(database)
            for each in what:
                if each == "running":
                    await tenants.remove_quota(tenant, by)
                else:
                    await tenants.remove_rate(tenant, each, by)
            return await _answer(tenants, tenant)

        return with_database(work)


class RemoteLimits:
    """Asks the API: one request for each limit."""

    _api: Api

    def quotas(self, behind: str, limit: int) -> Document:
        """Return the limits of some tenants."""
        return self._api.get("/v1/quotas", {"cursor": behind or None, "limit": limit})

    def quota(self, tenant: str) -> Document:
        """Return what a tenant may do and has used."""
        return self._api.get(_place(tenant))

    def set_quota(
        self, tenant: str, most: Mapping[Limited, int], window_ms: int, reason: str
    ) -> Document:
        """Set limits of a tenant; what was set before one is refused stays set."""
        for what, limit in most.items():
            body = {"most": limit, "window_ms": window_ms, "reason": reason}
            self._api.put(f"{_place(tenant)}/{what}", body)
        return self.quota(tenant)

    def remove_quota(self, tenant: str, what: Sequence[Limited], reason: str) -> Document:
        """Take limits of a tenant away."""
        for each in what:
            self._api.delete(f"{_place(tenant)}/{each}", {"reason": reason})
        return self.quota(tenant)


def _place(tenant: str) -> str:
    return f"/v1/quotas/{quote(tenant, safe='')}"


async def _answer(tenants: Tenants, tenant: str) -> Document:
    limits = list(map(LimitAnswer.of, await tenants.limits([tenant])))
    return QuotaAnswer(tenant=tenant, limits=limits).model_dump(mode="json")
