"""Asks anew for the rights of whoever began a bulk operation, while it is worked off."""

from __future__ import annotations

from collections.abc import Iterable

from sagabus_core.engine import OperationKind
from sagabus_orchestrator.api.identity.key_verifier import principal_of
from sagabus_orchestrator.api.identity.keys import SQL
from sagabus_orchestrator.api.identity.permissions import (
    ENGINE_PERMISSIONS,
    OPERATION_PERMISSIONS,
    Permission,
)
from sagabus_orchestrator.api.identity.principal import KEY_ACTOR, Principal
from sagabus_orchestrator.bulk import Bulk
from sagabus_orchestrator.errors import Refused
from sagabus_store import Database

__all__ = ["KeyRights", "engine_rights"]


def engine_rights(permissions: Iterable[Permission]) -> frozenset[str]:
    """Return the engine's names of the operations that these permissions allow."""
    held = frozenset(permissions)
    return frozenset(name for name, each in ENGINE_PERMISSIONS.items() if each in held)


class KeyRights:
    """`bulk.Rights` over the table of API keys, as it is at this moment.

    What a bearer token permitted was true when it was shown: nobody but its issuer could say more,
    so a bulk operation begun with one keeps those rights until it ends, or is paused or cancelled.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def permitted(self, bulk: Bulk) -> frozenset[str] | None:
        """Return what was permitted at the beginning and still is; see `Rights`."""
        first = bulk.order.permitted
        if first is None or not bulk.answerable.startswith(KEY_ACTOR):
            return first
        name = bulk.answerable.removeprefix(KEY_ACTOR)
        async with self._database.connection() as conn:
            row = await conn.fetchrow(SQL["key_standing"], name)
        if row is None or row["revoked"] or row["expired"]:
            how = "is gone" if row is None else "was revoked" if row["revoked"] else "has expired"
            raise _lost(f"the API key {name!r} {how}")
        caller = principal_of(row)
        kind = OperationKind(bulk.order.kind)
        if Permission.BULK_RUN not in caller.permissions or caller.permissions.isdisjoint(
            OPERATION_PERMISSIONS[kind]
        ):
            raise _lost(f"the API key {name!r} may not {kind} sagas in bulk any more")
        if not _reaches(caller, bulk):
            raise _lost(f"the API key {name!r} has lost a tenant of this bulk operation")
        return first & engine_rights(caller.permissions)


def _lost(detail: str) -> Refused:
    return Refused("rights_lost", detail)


def _reaches(caller: Principal, bulk: Bulk) -> bool:
    tenants = bulk.order.wanted.tenants
    if tenants is None:
        return caller.tenants.everyone
    return all(tenant in caller.tenants for tenant in tenants)
