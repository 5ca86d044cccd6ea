"""A Kafka broker and a Postgres that are there when a block begins and gone when it ends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from sagabus_testkit.stack.control import Control
from sagabus_testkit.stack.docker import DockerControl
from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.home import StackHome
from sagabus_testkit.stack.kafka import Kafka
from sagabus_testkit.stack.postgres import Postgres
from sagabus_testkit.stack.process import ProcessControl
from sagabus_testkit.stack.resolve import resolve_kafka, resolve_postgres

__all__ = ["LocalStack"]

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


class LocalStack:
    """Real Kafka and real Postgres on loopback, in `.stack/<name>/`.

        with LocalStack("demo") as stack:
            stack.kafka.bootstrap, stack.postgres.dsn

    Entering the block opens the directory; a server starts when its property is first read, both
    together by `start()`. Leaving it in any way stops what was started; killing this process
    (also by SIGKILL) stops the servers within a second or two. Synchronous: in asynchronous code
    use `asyncio.to_thread`. Not for use by several threads at once.

    The name is for one owner at a time. Without `keep` the directory is new and removed at the
    end; a name that ends in a dash and the process id also lets later stacks clear up after a
    kill. With `keep` the data is there again under the same name. Errors: `StackError`.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        root: Path | None = None,
        keep: bool = False,
        kafka_settings: Mapping[str, str] = _NO_SETTINGS,
        postgres_settings: Mapping[str, str] = _NO_SETTINGS,
    ) -> None:
        self.name = name or f"stack-{os.getpid()}"
        self._root = root
        self._keep = keep
        self._kafka_settings = kafka_settings
        self._postgres_settings = postgres_settings
        self._home: StackHome | None = None
        self._kafka: Kafka | None = None
        self._postgres: Postgres | None = None

    @property
    def directory(self) -> Path:
        """The directory of the stack, which holds the logs `kafka.log` and `postgres.log`."""
        return self._open().directory

    @property
    def kafka(self) -> Kafka:
        """The broker, started if it was never started."""
        if self._kafka is None:
            self._kafka = resolve_kafka(self._open(), self._kafka_settings)
            try:
                self._kafka.control.start()
            except StackError:
                self._kafka = None
                raise
        return self._kafka

    @property
    def postgres(self) -> Postgres:
        """The database server, started if it was never started."""
        if self._postgres is None:
            self._postgres = resolve_postgres(self._open(), self._postgres_settings)
            try:
                self._postgres.control.start()
            except StackError:
                self._postgres = None
                raise
        return self._postgres

    def start(self) -> Self:
        """Start both servers side by side, as far as they were never started; all or nothing."""
        try:
            for control in self._spawn():
                control.wait_ready()
        except StackError:
            self.stop()
            raise
        return self

    def _spawn(self) -> list[Control]:
        spawned: list[Control] = []
        if self._kafka is None:
            self._kafka = resolve_kafka(self._open(), self._kafka_settings)
            spawned.append(self._kafka.control)
            self._kafka.control.spawn()
        if self._postgres is None:
            self._postgres = resolve_postgres(self._open(), self._postgres_settings)
            spawned.append(self._postgres.control)
            self._postgres.control.spawn()
        return spawned

    def stop(self) -> None:
        """Stop the servers and close the directory. May be called twice."""
        started = [s.control for s in (self._kafka, self._postgres) if s is not None]
        if not self._keep:
            self._abandon()
        self._kafka = self._postgres = None
        processes = [control for control in started if isinstance(control, ProcessControl)]
        for process in processes:
            process.begin_stop()
        for process in processes:
            process.stop()
        for container in started:
            if isinstance(container, DockerControl):
                container.remove()
        if self._home is not None:
            self._home.close()
            self._home = None

    def _abandon(self) -> None:
        """End our processes without their last checkpoints: the data goes with the directory."""
        if self._kafka is not None and isinstance(self._kafka.control, ProcessControl):
            self._kafka.control.kill()
        if self._postgres is not None and isinstance(self._postgres.control, ProcessControl):
            self._postgres.control.begin_stop("SIGQUIT")

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _open(self) -> StackHome:
        if self._home is None:
            self._home = StackHome(self.name, root=self._root, keep=self._keep)
        return self._home
