"""Rights: a migration role owns the tables, run-time roles may do only what they need.

Each component's folder may hold `grants.sql`, named queries whose names are profiles (`app`,
`relay`, `maintenance`) and whose text is a list of statements with `{role}` and `{schema}`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal

import asyncpg

from sagabus_store.database import Connection
from sagabus_store.errors import MigrationError, translated
from sagabus_store.migrations import Component, quoted
from sagabus_store.queries import parse_queries

__all__ = ["GRANTS_FILE", "Profile", "ensure_login_role", "grant", "scram_verifier"]

Profile = Literal["app", "relay", "maintenance"]
GRANTS_FILE: Final = "grants.sql"
_ITERATIONS: Final = 4096


async def ensure_login_role(conn: Connection, role: str, password: str) -> None:
    """Make a role that can log in and nothing else; sets the password of one that exists.

    The server is given a verifier, so that the password reaches neither its log nor its wire.
    """
    name = await quoted(conn, role)
    verifier = scram_verifier(password)
    attributes = "login nosuperuser nocreatedb nocreaterole noreplication"
    with translated():
        # Two at once: the second finds the role and goes on to its password.
        with suppress(asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
            async with conn.transaction():
                await conn.execute(f"create role {name}")
        await conn.execute(f"alter role {name} with {attributes} password '{verifier}'")


async def grant(
    conn: Connection,
    components: Sequence[Component],
    *,
    profile: Profile,
    role: str,
    schema: str = "public",
) -> None:
    """Give `role` the rights of `profile` on the tables of `components`; run by the owner.

    Safe to repeat. Raises `MigrationError` (`no_grants`) if no component knows the profile: a
    typing error must not look like a role without rights.
    """
    names = {"role": await quoted(conn, role), "schema": await quoted(conn, schema)}
    statements = [text for component in components for text in _grants(component, profile)]
    if not statements:
        raise MigrationError("no_grants", f"no component grants anything to profile {profile}")
    with translated():
        async with conn.transaction():
            await conn.execute(f"set local search_path = {names['schema']}")
            for text in statements:
                await conn.execute(text.format_map(names))


def _grants(component: Component, profile: Profile) -> list[str]:
    try:
        source = component.read(GRANTS_FILE)
    except FileNotFoundError:
        return []
    found = parse_queries(source, f"{component.package}/{component.directory}/{GRANTS_FILE}")
    return [found[profile].text] if profile in found else []


def scram_verifier(password: str, salt: bytes | None = None) -> str:
    """Return what Postgres stores for a password under SCRAM-SHA-256 (RFC 5802, RFC 7677).

    The password must be ASCII: the normalisation of other texts is the server's business.
    """
    if not password.isascii() or not password:
        raise MigrationError("bad_password", "a role's password must be non-empty ASCII")
    salt = salt if salt is not None else secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_text, stored_text, server_text = (
        base64.b64encode(part).decode() for part in (salt, stored, server)
    )
    return f"SCRAM-SHA-256${_ITERATIONS}:{salt_text}${stored_text}:{server_text}"
