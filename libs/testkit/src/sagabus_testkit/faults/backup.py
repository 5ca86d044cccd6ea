"""A Postgres that can be set back to an earlier instant: base backup, WAL archive, recovery."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sagabus_store import Queries
from sagabus_testkit.eventually import eventually_sync
from sagabus_testkit.stack import Postgres, StackError
from sagabus_testkit.stack.commands import run
from sagabus_testkit.stack.postgres_install import find_postgres, unprivileged_identity

__all__ = ["PostgresBackup"]

SQL: Final = Queries("sagabus_testkit", "faults/sql/backup.sql")
_WITHIN_S: Final = 60.0


class PostgresBackup:
    """What deploy/runbooks/restore-orchestrator.md does, for a Postgres of the local stack.

        with PostgresBackup() as backup, LocalStack(postgres_settings=backup.settings) as stack:
            backup.take(stack.postgres)
            instant = backup.now(stack.postgres)
            backup.restore(stack.postgres, instant)

    Everything that was committed after `instant` is gone; the address stays. Blocking. Errors:
    `StackError` (`backup_failed`).
    """

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="sagabus-backup-"))
        self._archive = self._root / "archive"
        self._archive.mkdir()
        self._data = Path()
        self._own(self._root, self._archive)

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings that the server must run with from its first start."""
        return {"archive_mode": "on", "archive_command": f"cp %p {self._archive}/%f"}

    def take(self, postgres: Postgres) -> None:
        """Take the base backup."""
        self._data = Path(str(postgres.ask("show data_directory")))
        tool = find_postgres().bin / "pg_basebackup"
        target = ("-D", self._root / "base", "-X", "fetch", "-c", "fast")
        done = run((tool, "-d", postgres.dsn, *target))
        if done.returncode != 0:
            raise StackError("backup_failed", f"pg_basebackup: {done.stderr.strip()}")

    def now(self, postgres: Postgres) -> str:
        """Return the instant of the server's clock, as `restore` takes it."""
        return str(postgres.ask(SQL["now"]))

    def restore(self, postgres: Postgres, instant: str) -> None:
        """Lose the server, and start it as it was at `instant`."""
        segment = str(postgres.ask(SQL["end_segment"]))
        eventually_sync(
            lambda: str(postgres.ask(SQL["last_archived"])) >= segment,
            within=_WITHIN_S,
            what=f"{segment} is archived",
        )
        postgres.kill()
        self._data.rename(self._data.with_name(f"{self._data.name}-lost"))
        shutil.copytree(self._root / "base", self._data, symlinks=True)
        self._data.chmod(0o700)
        with (self._data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"restore_command = 'cp {self._archive}/%f %p'\n")
            settings.write(f"recovery_target_time = '{instant}'\n")
            settings.write("recovery_target_action = 'promote'\n")
        (self._data / "recovery.signal").touch()
        self._own(self._data, *self._data.rglob("*"))
        postgres.start()
        eventually_sync(lambda: _takes_writes(postgres), within=_WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    @staticmethod
    def _own(*paths: Path) -> None:
        owner = unprivileged_identity().owner
        if owner is not None:
            for path in paths:
                os.chown(path, *owner)


def _takes_writes(postgres: Postgres) -> bool:
    try:
        return bool(postgres.ask(SQL["takes_writes"]))
    except StackError:
        return False  # it still starts
