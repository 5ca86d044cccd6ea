"""Postgres over TLS, as the DSN of a service asks for it; and what is told where it cannot be."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sagabus_runtime.settings import check_dsn
from sagabus_store import (
    SHARED,
    Database,
    DatabaseOptions,
    StoreMisconfigured,
    StoreUnavailable,
    migrate,
)
from sagabus_testkit.stack import Postgres
from sagabus_testkit.stack.authority import make_authority
from sagabus_testkit.stack.home import StackHome
from sagabus_testkit.stack.local_postgres import local_postgres
from sagabus_testkit.stack.secure_postgres import CERTIFIED, SecureDoor

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with ExitStack() as stack:
        home = StackHome(f"secure-postgres-{os.getpid()}")
        stack.callback(home.close)
        postgres = local_postgres(home, {"fsync": "off"}, secure=True)
        postgres.start()
        stack.callback(postgres.kill)
        yield postgres


@pytest.fixture
def door(server: Postgres) -> SecureDoor:
    assert server.secure is not None
    return server.secure


def verified(dsn: str, ca_file: Path, client_file: Path | None = None) -> str:
    certificate = "" if client_file is None else f"&sslcert={client_file}&sslkey={client_file}"
    return check_dsn(f"{dsn}?sslmode=verify-full&sslrootcert={ca_file}{certificate}")


def certified(server: Postgres) -> str:
    """Return the DSN of the role that has no password."""
    return f"postgresql://{CERTIFIED}@{server.host}:{server.port}/postgres"


async def session(dsn: str) -> tuple[str, bool]:
    """Return who is let in, and whether by TLS."""
    database = Database(dsn, DatabaseOptions("test", pool_size=1))
    await database.open()
    try:
        async with database.connection() as conn:
            row = await conn.fetchrow(
                "select current_user::text, ssl from pg_stat_ssl where pid = pg_backend_pid()"
            )
    finally:
        await database.close()
    assert row is not None
    return tuple(row)


async def turned_away(dsn: str) -> str:
    """Return what the pool and the migrator of a service say, both alike."""
    with pytest.raises(StoreMisconfigured) as found:
        await session(dsn)
    with pytest.raises(StoreMisconfigured) as again:
        await migrate(dsn, [SHARED])
    assert found.value.code == again.value.code == "store_misconfigured"
    return found.value.detail


async def test_services_reach_postgres_by_tls_with_password_or_certificate(
    server: Postgres, door: SecureDoor
) -> None:
    dsn = verified(server.dsn, door.ca_file)
    assert await session(dsn) == ("sagabus", True)
    await migrate(dsn, [SHARED])
    database = Database(dsn, DatabaseOptions("test", pool_size=1))
    await database.open()
    async with database.connection() as conn:
        await conn.execute(f"create role {CERTIFIED} login")
    await database.close()
    shown = verified(certified(server), door.ca_file, door.client_file)
    assert await session(shown) == (CERTIFIED, True)


async def test_what_is_wrong_is_told_and_once_it_is_mended_it_works(
    server: Postgres, door: SecureDoor, postgres: Postgres, tmp_path: Path
) -> None:
    ca_file, foreign = tmp_path / "ca.pem", tmp_path / "client.pem"
    stranger = make_authority()
    ca_file.write_bytes(stranger.certificate_pem)
    foreign.write_bytes(stranger.issue(CERTIFIED))
    wrong_ca = verified(server.dsn, ca_file)
    assert "CERTIFICATE_VERIFY_FAILED" in await turned_away(wrong_ca)
    assert "sslrootcert" in await turned_away(wrong_ca)

    renamed = server.dsn.replace("127.0.0.1", "localhost")
    assert "CERTIFICATE_VERIFY_FAILED" in await turned_away(verified(renamed, door.ca_file))
    assert "certificate" in await turned_away(verified(certified(server), door.ca_file))
    shown = verified(certified(server), door.ca_file, foreign)
    # The server may hang up before its verdict is read, as in any handshake of TLS 1.3.
    with pytest.raises(StoreUnavailable):
        await session(shown)
    assert "rejected SSL upgrade" in await turned_away(verified(postgres.dsn, door.ca_file))

    ca_file.write_bytes(door.ca_file.read_bytes())
    assert await session(wrong_ca) == ("sagabus", True), "files are read anew"


async def test_a_server_that_is_away_is_told_as_one(door: SecureDoor) -> None:
    away = verified("postgresql://a:b@127.0.0.1:1/db", door.ca_file)
    with pytest.raises(StoreUnavailable) as found:
        await session(away)
    assert found.value.code == "store_unavailable"
