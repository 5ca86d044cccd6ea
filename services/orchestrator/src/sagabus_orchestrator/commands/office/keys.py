"""API keys, both ways."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

from sagabus_cli import Api, actor
from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ApiKeys,
    KeyRequest,
    KeyVerifier,
    Permission,
    Principal,
)
from sagabus_orchestrator.api.models.keys import KeyAnswer, KeyList, KeyMade
from sagabus_orchestrator.commands.office.ports import Document
from sagabus_orchestrator.commands.session import with_database
from sagabus_store import Database

__all__ = ["DirectKeys", "RemoteKeys"]

_PLACE = "/v1/keys"


class DirectKeys:
    """Works on the database: whoever has its password could write any row anyway.

    This is how the first key of a deployment is made.
    """

    def keys(self, limit: int, cursor: str | None) -> Document:
        """Return keys by name."""

        async def work(database: Database) -> Document:
            found = await ApiKeys(database).list(_owner(), limit + 1, cursor or "")
            page = found[:limit]
            more = page[-1].name if len(found) > limit else None
            return KeyList(keys=list(map(KeyAnswer.of, page)), next_cursor=more).model_dump(
                mode="json"
            )

        return with_database(work)

    def create_key(self, request: KeyRequest, reason: str) -> Document:
        """Make a key as SAGABUS_ACTOR, or the user of this machine."""

        async def work(database: Database) -> Document:
            key, text = await ApiKeys(database).create(request, _owner(), reason)
            return KeyMade.made(key, text).model_dump(mode="json")

        return with_database(work)

    def revoke_key(self, name: str, reason: str) -> Document:
        """Let a key count no longer."""

        async def work(database: Database) -> Document:
            key = await ApiKeys(database).revoke(name, _owner(), reason)
            return KeyAnswer.of(key).model_dump(mode="json")

        return with_database(work)

    def key_counts(self, text: str) -> bool:
        """Return whether a key counts."""

        async def work(database: Database) -> bool:
            return isinstance(await KeyVerifier(database).judge(text), Principal)

        return with_database(work)


class RemoteKeys:
    """Asks the API: a key can do no more than the one that makes it."""

    _api: Api

    def keys(self, limit: int, cursor: str | None) -> Document:
        """Return keys by name."""
        return self._api.get(_PLACE, {"limit": limit, "cursor": cursor})

    def create_key(self, request: KeyRequest, reason: str) -> Document:
        """Make a key."""
        body = {
            "name": request.name,
            "roles": sorted(request.roles),
            "permissions": sorted(request.permissions),
            "tenants": sorted(request.tenants.names),
            "all_tenants": request.tenants.everyone,
            "lives_days": None if request.lives is None else request.lives // timedelta(days=1),
            "reason": reason,
        }
        return self._api.post(_PLACE, body)

    def revoke_key(self, name: str, reason: str) -> Document:
        """Let a key count no longer."""
        return self._api.post(f"{_PLACE}/{quote(name, safe='')}/revoke", {"reason": reason})

    def key_counts(self, text: str) -> bool:
        """Return whether a key counts: the API may refuse what it asks, but knows who asks."""
        return self._api.knows(text, _PLACE)


def _owner() -> Principal:
    return Principal(actor(), frozenset(Permission), ALL_TENANTS)
