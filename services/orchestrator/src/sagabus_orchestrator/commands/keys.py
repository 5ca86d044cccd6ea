"""`sagabus keys create|list|revoke`: API keys of machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from sagabus_cli import UsageError, current_output, options_of
from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    KeyRequest,
    Permission,
    Role,
    TenantScope,
)
from sagabus_orchestrator.commands.key_file import key_in_file
from sagabus_orchestrator.commands.office import Document, open_office

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="API keys of machines.\n\n"
    "Through the API a key can do no more than the one that makes it. The first key of a "
    "deployment is made on the database itself (--direct or --postgres).",
)

_COLUMNS: Final = ("name", "roles", "tenants", "lives", "last used")
Name = Annotated[str, typer.Argument(help="Name of the key; audit facts say key:NAME.")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Create:
    """The options of `create`."""

    name: Name
    grant: Annotated[
        list[str],
        typer.Option(
            "--grant", help="A role (operator, ...) or permission (saga:start, ...); repeatable."
        ),
    ]
    tenant: Annotated[
        list[str] | None, typer.Option("--tenant", help="For which tenants; repeatable.")
    ] = None
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="For every tenant.")] = False
    days: Annotated[
        int, typer.Option(min=0, max=3_650, help="How long it lives; 0: until it is revoked.")
    ] = 90
    reason: Why = ""
    file: Annotated[
        Path | None,
        typer.Option(
            help="Keep the key here (mode 600) instead of printing it; if the file holds one that "
            "counts, do nothing."
        ),
    ] = None


@app.command()
@options_of(_Create)
def create(asked: _Create) -> None:
    """Make a key and show it once: nobody can learn it again."""
    if bool(asked.tenant) == asked.all_tenants:
        raise UsageError("usage", "name tenants by --tenant, or say --all-tenants")
    roles, permissions = _granted(asked.grant)
    request = KeyRequest(
        name=asked.name,
        tenants=ALL_TENANTS if asked.all_tenants else TenantScope(frozenset(asked.tenant or ())),
        roles=roles,
        permissions=permissions,
        lives=timedelta(days=asked.days) if asked.days else None,
    )
    with open_office() as office:
        if asked.file is not None:
            name, made = key_in_file(office, request, asked.reason, asked.file)
            said = f"key {name or asked.name} in {asked.file} ({'made' if made else 'was there'})"
            document = {"name": name, "file": str(asked.file), "created": made}
            current_output().tell(document, said)
            return
        key = office.create_key(request, asked.reason)
    told = (
        f"{key['key']}\n  key {key['name']}, {_lives(key)}; keep it now, nobody can show it again"
    )
    current_output().tell(key, told)


@app.command("list")
def list_keys(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Keys of one page.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page: its next cursor.")] = None,
) -> None:
    """List keys by name, also those that count no longer."""
    with open_office() as office:
        page = office.keys(limit, cursor)
    output = current_output()
    output.table(page, _COLUMNS, list(map(_row, page["keys"])), "no key")
    if page["next_cursor"]:
        output.note(f"more: --cursor {page['next_cursor']}")


@app.command()
def revoke(name: Name, reason: Why = "") -> None:
    """Let a key count no longer: every API process refuses it within SAGABUS_API_KEY_CACHE_MS."""
    with open_office() as office:
        key = office.revoke_key(name, reason)
    current_output().tell(key, f"{key['name']} is {_lives(key)}")


def _granted(names: Sequence[str]) -> tuple[frozenset[Role], frozenset[Permission]]:
    roles, permissions = set(map(str, Role)), set(map(str, Permission))
    for name in set(names) - roles - permissions:
        known = ", ".join([*sorted(roles), *sorted(permissions)])
        raise UsageError("usage", f"{name!r} is no role or permission; these are: {known}")
    return (
        frozenset(Role(name) for name in names if name in roles),
        frozenset(Permission(name) for name in names if name in permissions),
    )


def _lives(key: Document) -> str:
    if key["revoked_at"] is not None:
        return f"revoked since {key['revoked_at']} by {key['revoked_by']}"
    return f"valid until {key['expires_at']}" if key["expires_at"] else "valid for good"


def _row(key: Document) -> tuple[str, ...]:
    tenants = "all" if key["all_tenants"] else ", ".join(key["tenants"])
    rights = ", ".join((*key["roles"], *key["permissions"]))
    return (key["name"], rights, tenants, _lives(key), key["last_used_at"] or "never")
