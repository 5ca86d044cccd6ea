"""Postgres as a process of ours: a data directory copied from a template, fsync on, TCP only."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sagabus_testkit.stack.cache import build_once, cache_root
from sagabus_testkit.stack.commands import run
from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.home import OUTSIDE_LINK, StackHome
from sagabus_testkit.stack.ports import LOOPBACK
from sagabus_testkit.stack.postgres import Postgres
from sagabus_testkit.stack.postgres_install import (
    Identity,
    PostgresInstall,
    find_postgres,
    unprivileged_identity,
)
from sagabus_testkit.stack.probe import postgres_answers
from sagabus_testkit.stack.process import ProcessControl, ServerCommand, dies_with_guard
from sagabus_testkit.stack.secure_postgres import open_secure_door

__all__ = ["SUPERUSER", "local_postgres"]

SUPERUSER = "sagabus"
SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%d ",
    "listen_addresses": LOOPBACK,
    # TCP only: the path of a socket may have 107 bytes, which a deep directory exceeds.
    "unix_socket_directories": "",
}


def local_postgres(
    home: StackHome, settings: Mapping[str, str], *, secure: bool = False
) -> Postgres:
    """Prepare a Postgres below `home`; it is not started yet. Raises `StackError`.

    With `secure` it speaks TLS to those who ask for it, with certificates made now.
    """
    install = find_postgres()
    identity = unprivileged_identity()
    template = _template(install, identity)
    data = _data_directory(home, identity)
    if not (data / "PG_VERSION").exists():
        shutil.rmtree(data, ignore_errors=True)
        _copy(template / "data", data, identity)
        # The password belongs to the data, which may outlive the template.
        shutil.copyfile(template / "password", home.directory / "postgres.password")
        (home.directory / "postgres.password").chmod(0o600)
    password = (home.directory / "postgres.password").read_text()
    port = home.ports.take()
    door = None
    if secure:
        door, more = open_secure_door(home.directory, data, identity)
        settings = {**more, **settings}
    command = ServerCommand(
        name="postgres",
        argv=_argv(install, identity, data, {**SETTINGS, **settings, "port": str(port)}),
        directory=home.directory,
        answers=lambda: postgres_answers(LOOPBACK, port, SUPERUSER),
        stop_signal="SIGINT",
    )
    dsn = f"postgresql://{SUPERUSER}:{password}@{LOOPBACK}:{port}/postgres"
    return Postgres(dsn, ProcessControl(command, home.lock), door)


def _argv(
    install: PostgresInstall, identity: Identity, data: Path, settings: Mapping[str, str]
) -> tuple[str, ...]:
    chosen = dict(settings)
    if install.has_statement_statistics:
        chosen.setdefault("shared_preload_libraries", "pg_stat_statements")
    options = [part for key, value in chosen.items() for part in ("-c", f"{key}={value}")]
    server = (str(install.bin / "postgres"), "-D", str(data), *options)
    return (*identity.prefix, *dies_with_guard("SIGINT"), *server)


def _template(install: PostgresInstall, identity: Identity) -> Path:
    key = hashlib.sha256(f"{install.bin} {install.version} 1".encode()).hexdigest()[:8]
    target = cache_root() / "postgres" / f"{install.version}-{key}"

    def build(directory: Path) -> None:
        _initdb(install, identity, directory)

    return build_once(target, build)


def _initdb(install: PostgresInstall, identity: Identity, target: Path) -> None:
    password = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="sagabus-initdb-") as scratch:
        data, secret = Path(scratch) / "data", Path(scratch) / "password"
        data.mkdir(mode=0o700)
        secret.write_text(password)
        secret.chmod(0o600)
        for path in (Path(scratch), data, secret):
            _give(path, identity)
        initdb: tuple[str | Path, ...] = (
            *identity.prefix,
            install.bin / "initdb",
            "-D",
            data,
            "-U",
            SUPERUSER,
        )
        access = ("-A", "scram-sha-256", f"--pwfile={secret}")
        form = ("-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
        done = run((*initdb, *access, *form), environment={"TZ": "UTC", "LC_ALL": "C"})
        if done.returncode != 0:
            raise StackError("initdb_failed", f"initdb failed: {done.stderr.strip()[-400:]}")
        shutil.copytree(data, target / "data", symlinks=True)
    (target / "password").write_text(password)
    (target / "password").chmod(0o600)


def _data_directory(home: StackHome, identity: Identity) -> Path:
    """Below the stack, or where another user gets at it: root's home is closed to others."""
    if identity.owner is None:
        return home.directory / "postgres"
    pointer = home.directory / OUTSIDE_LINK
    if not pointer.exists():
        outside = Path(tempfile.mkdtemp(prefix="sagabus-postgres-"))
        _give(outside, identity)
        pointer.symlink_to(outside)
    return pointer.resolve() / "data"


def _copy(source: Path, target: Path, identity: Identity) -> None:
    shutil.copytree(source, target, symlinks=True)
    target.chmod(0o700)
    if identity.owner is not None:
        for path in (target, *target.rglob("*")):
            _give(path, identity)


def _give(path: Path, identity: Identity) -> None:
    if identity.owner is not None:
        os.chown(path, *identity.owner)
