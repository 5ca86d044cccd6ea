"""A disk that is full for one database: a small file system with a tablespace on it."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sagabus_testkit.stack import Postgres, StackError
from sagabus_testkit.stack.commands import run

__all__ = ["SmallDisk"]

_BALLAST: Final = "ballast"
_TABLESPACE: Final = "small_disk"
_BLOCK: Final = b"\0" * 8192


class SmallDisk:
    """Keeps one database on a file system of a few megabytes that can be filled.

        with SmallDisk(stack.postgres, "shop_inventory", megabytes=32) as disk:
            disk.fill()
            disk.free()

    Nobody may be connected to the database when the block begins and ends: it moves. Its WAL stays
    on the other disk, as with any tablespace. Mounting needs root: raises `StackError`
    (`mount_refused`) otherwise. Blocking.
    """

    def __init__(self, postgres: Postgres, database: str, *, megabytes: int) -> None:
        self._postgres = postgres
        self._database = database
        self._megabytes = megabytes
        self._root = Path()

    def fill(self) -> None:
        """Leave no free block: whatever needs a new page is refused with SQLSTATE 53100."""
        ballast = os.open(self._root / _BALLAST, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            while True:
                os.write(ballast, _BLOCK)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(ballast)

    def free(self) -> None:
        """Give the space back. May be called twice."""
        (self._root / _BALLAST).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self._root = Path(tempfile.mkdtemp(prefix="sagabus-disk-"))
        size = f"size={self._megabytes}m,mode=0755"
        done = run(("mount", "-t", "tmpfs", "-o", size, "tmpfs", self._root))
        if done.returncode != 0:
            self._root.rmdir()
            raise StackError("mount_refused", f"cannot mount a small disk: {done.stderr.strip()}")
        try:
            self._move_in()
        except BaseException:
            self._unmount()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.free()
        try:
            self._postgres.ask(f'alter database "{self._database}" set tablespace pg_default')
            self._postgres.ask(f"drop tablespace {_TABLESPACE}")
        finally:
            self._unmount()

    def _move_in(self) -> None:
        place = self._root / "tablespace"
        place.mkdir(mode=0o700)
        owner = Path(str(self._postgres.ask("show data_directory"))).stat()
        for path in (self._root, place):
            os.chown(path, owner.st_uid, owner.st_gid)
        self._postgres.ask(f"create tablespace {_TABLESPACE} location '{place}'")
        self._postgres.ask(f'alter database "{self._database}" set tablespace {_TABLESPACE}')

    def _unmount(self) -> None:
        run(("umount", "--lazy", self._root))
        shutil.rmtree(self._root, ignore_errors=True)
