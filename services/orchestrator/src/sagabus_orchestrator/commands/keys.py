"""`sagabus keys create|list|revoke`: API keys of machines, straight on the database.

Whoever holds the owner's password of the database may do anything to it anyway: this is how the
first key of a deployment is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from sagabus_cli import UsageError, current_output
from sagabus_messages import format_instant
from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ApiKey,
    ApiKeys,
    KeyRequest,
    Permission,
    Principal,
    Role,
    TenantScope,
)
from sagabus_orchestrator.commands.key_file import key_in_file
from sagabus_orchestrator.commands.session import actor, with_database
from sagabus_store import Database

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="API keys of machines.\n\nWorks on the database itself, not through the API.",
)

Name = Annotated[str, typer.Argument(help="Name of the key; audit facts say key:NAME.")]
Grants = Annotated[
    list[str],
    typer.Option(
        "--grant", help="A role (operator, ...) or permission (saga:start, ...); repeatable."
    ),
]
Tenants = Annotated[
    list[str] | None, typer.Option("--tenant", help="For which tenants; repeatable.")
]
Days = Annotated[
    int, typer.Option(min=0, max=3_650, help="How long it lives; 0: until it is revoked.")
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        help="Keep the key here (mode 600) instead of printing it; if the file holds one that "
        "counts, do nothing."
    ),
]

Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")]


@app.command()
def create(
    name: Name,
    grant: Grants,
    tenant: Tenants = None,
    days: Days = 90,
    file: KeyFile = None,
    *,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="For every tenant.")] = False,
) -> None:
    """Make a key and show it once: nobody can learn it again."""
    if bool(tenant) == all_tenants:
        raise UsageError("usage", "name tenants by --tenant, or say --all-tenants")
    roles, permissions = _granted(grant)
    request = KeyRequest(
        name=name,
        tenants=ALL_TENANTS if all_tenants else TenantScope(frozenset(tenant or ())),
        roles=roles,
        permissions=permissions,
        lives=timedelta(days=days) if days else None,
    )
    if file is not None:
        _create_in_file(request, file)
        return

    async def work(database: Database) -> tuple[ApiKey, str]:
        key, text = await ApiKeys(database).create(request, _owner())
        return key, text.reveal()

    key, text = with_database(work)
    told = f"{text}\n  key {key.name}, {_lives(key)}; keep it now, nobody can show it again"
    current_output().tell({**_document(key), "key": text}, told)


@app.command("list")
def list_keys() -> None:
    """List all keys, also those that count no longer."""

    async def work(database: Database) -> list[ApiKey]:
        return await ApiKeys(database).list(_owner())

    found = with_database(work)
    current_output().table(
        {"keys": [_document(key) for key in found]},
        ("name", "roles", "tenants", "lives", "last used"),
        [_row(key) for key in found],
    )


@app.command()
def revoke(name: Name, reason: Reason = "") -> None:
    """Let a key count no longer; running processes notice within seconds."""

    async def work(database: Database) -> ApiKey:
        return await ApiKeys(database).revoke(name, _owner(), reason)

    key = with_database(work)
    current_output().tell(_document(key), f"{key.name} is {_lives(key)}")


def _granted(names: Sequence[str]) -> tuple[frozenset[Role], frozenset[Permission]]:
    roles, permissions = set(map(str, Role)), set(map(str, Permission))
    for name in set(names) - roles - permissions:
        known = ", ".join([*sorted(roles), *sorted(permissions)])
        raise UsageError("usage", f"{name!r} is no role or permission; these are: {known}")
    return (
        frozenset(Role(name) for name in names if name in roles),
        frozenset(Permission(name) for name in names if name in permissions),
    )


def _create_in_file(request: KeyRequest, file: Path) -> None:
    async def work(database: Database) -> tuple[str, bool]:
        return await key_in_file(database, request, _owner(), file)

    name, made = with_database(work)
    said = f"key {name} in {file} ({'made' if made else 'was there'})"
    current_output().tell({"name": name, "file": str(file), "created": made}, said)


def _owner() -> Principal:
    return Principal(actor(), frozenset(Permission), ALL_TENANTS)


def _lives(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked since {_instant(key.revoked_at)} by {key.revoked_by}"
    return f"valid until {_instant(key.expires_at)}" if key.expires_at else "valid for good"


def _row(key: ApiKey) -> tuple[str, ...]:
    tenants = "all" if key.tenants.everyone else ", ".join(sorted(key.tenants.names))
    used = _instant(key.last_used_at) or "never"
    return (key.name, ", ".join((*key.roles, *key.permissions)), tenants, _lives(key), used)


def _document(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "roles": list(key.roles),
        "permissions": list(key.permissions),
        "tenants": sorted(key.tenants.names),
        "all_tenants": key.tenants.everyone,
        "created_at": _instant(key.created_at),
        "created_by": key.created_by,
        "expires_at": _instant(key.expires_at),
        "last_used_at": _instant(key.last_used_at),
        "revoked_at": _instant(key.revoked_at),
        "revoked_by": key.revoked_by,
    }


def _instant(at: datetime | None) -> str | None:
    return None if at is None else format_instant(int(at.timestamp() * 1000))
