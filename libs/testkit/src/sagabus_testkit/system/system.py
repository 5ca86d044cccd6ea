"""All services as real processes on a real stack, with the power to hurt each of them."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_messages import Topics
from sagabus_testkit.stack import LocalStack, Postgres, StackError
from sagabus_testkit.stack.commands import Outcome, run
from sagabus_testkit.stack.control import ExternalControl
from sagabus_testkit.stack.ports import ReservedPorts
from sagabus_testkit.stack.process import ProcessControl, ServerCommand
from sagabus_testkit.system.services import PARTICIPANTS, SERVICES, ServiceKind

__all__ = ["Servers", "System"]

_PROBE_S: Final = 5.0
_PARTITIONS: Final = 4
"""Few: on one machine more only make more files, and every saga's messages meet anyway."""
_NOTHING: Mapping[str, Mapping[str, str]] = MappingProxyType({})
_ONE_EACH: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the services find Kafka and Postgres, perhaps through fault proxies.

    `postgres_port` leads through one; `direct_bootstrap` leads around the one of `bootstrap`.
    `elsewhere`: services whose database is on another server, directly.
    """

    bootstrap: str
    postgres: Postgres
    postgres_port: int | None = None
    direct_bootstrap: str | None = None
    elsewhere: Mapping[str, Postgres] = field(default_factory=dict)

    @classmethod
    def of(cls, stack: LocalStack) -> Servers:
        """Return the servers of a stack, without a proxy."""
        return cls(stack.kafka.bootstrap, stack.postgres)

    @classmethod
    def named(cls, bootstrap: str, dsn: str) -> Servers:
        """Return servers that somebody else runs, by the superuser's DSN."""
        control = ExternalControl("Postgres", "SAGABUS_POSTGRES", lambda: True)
        return cls(bootstrap, Postgres(dsn, control))

    def postgres_of(self, service: str) -> Postgres:
        """Return the server of a service's database."""
        return self.elsewhere.get(service, self.postgres)

    def dsn(self, service: str, database: str) -> str:
        """Return the DSN that services get for the database of `service`."""
        port = None if service in self.elsewhere else self.postgres_port
        return self.postgres_of(service).dsn_for(database, port=port)

    def ensure_database(self, service: str, name: str) -> None:
        """Create an empty database unless it is there."""
        try:
            self.postgres_of(service).create_database(name)
        except StackError as error:
            if "already exists" not in error.detail:
                raise


class System:
    """Databases, topics and one process per service; they end with the block, or with us.

        with System(Servers.of(stack), stack.directory / "system") as system:
            system.start()
            system.kill("shipping"); system.restart("shipping")

    `name` prefixes databases and topics, so that several systems share a stack. `settings` adds
    environment variables by service (`*`: to all), `replicas` runs `orchestrator-2` and so on,
    `kinds` which services there are.
    Blocking; in asynchronous code use `asyncio.to_thread`. Errors: `StackError`.
    """

    def __init__(
        self,
        servers: Servers,
        directory: Path,
        *,
        name: str = "demo",
        settings: Mapping[str, Mapping[str, str]] = _NOTHING,
        replicas: Mapping[str, int] = _ONE_EACH,
        kinds: Sequence[ServiceKind] = SERVICES,
    ) -> None:
        self.servers = servers
        self.name = name
        self.directory = directory
        self.topics = Topics(f"{name}.")
        self._settings = settings
        self._kinds = kinds
        self._ports = ReservedPorts()
        self._cards_port, self._api_port = self._ports.take(), self._ports.take()
        self._processes: dict[str, ProcessControl] = {}
        self._environments: dict[str, dict[str, str]] = {}
        directory.mkdir(parents=True, exist_ok=True)
        for kind in kinds:
            for number in range(1, replicas.get(kind.name, 1) + 1):
                self._add(kind, kind.name if number == 1 else f"{kind.name}-{number}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all processes."""
        return tuple(self._processes)

    def replicas(self, service: str) -> tuple[str, ...]:
        """Return the names of the processes of a service."""
        return tuple(n for n in self._processes if n == service or n.startswith(f"{service}-"))

    @property
    def cards_url(self) -> str:
        """Where the card processor answers."""
        return f"http://127.0.0.1:{self._cards_port}"

    @property
    def api_url(self) -> str:
        """Where the HTTP API answers, if `API` is one of the kinds."""
        return f"http://127.0.0.1:{self._api_port}"

    @property
    def connection(self) -> KafkaConnection:
        """How this process reaches the same Kafka, without the proxy that services may have."""
        return KafkaConnection(self._direct_bootstrap, "sagabus-testkit")

    @property
    def environment(self) -> dict[str, str]:
        """What a `sagabus` command needs to work on this system."""
        return {
            "SAGABUS_KAFKA": self._direct_bootstrap,
            "SAGABUS_TOPIC_PREFIX": self.topics.prefix,
            "SAGABUS_POSTGRES": self.database("orchestrator"),
        }

    @property
    def _direct_bootstrap(self) -> str:
        return self.servers.direct_bootstrap or self.servers.bootstrap

    def database(self, service: str) -> str:
        """Return the DSN of a service's database, without the proxy that services may have."""
        return self.servers.postgres_of(service).dsn_for(self._database_name(service))

    def log_path(self, name: str) -> Path:
        """Return the file with all that a process wrote, over all its starts."""
        return self._processes[name].log_path

    def pid(self, name: str) -> int | None:
        """Return the id of a process while it runs."""
        return self._processes[name].pid

    def start(self) -> Self:
        """Create databases and topics, start every process, return once all are ready."""
        self.prepare()
        for process in self._processes.values():
            process.spawn()
        for process in self._processes.values():
            process.wait_ready()
        return self

    def prepare(self) -> None:
        """Create the databases and topics that are missing; the services make their tables."""
        for kind in self._kinds:
            self.servers.ensure_database(kind.owner, self._database_name(kind.owner))
        asyncio.run(self._ensure_topics())

    def stop(self) -> None:
        """Stop every process in good order and wait. May be called twice."""
        for process in self._processes.values():
            process.begin_stop()
        for process in self._processes.values():
            process.stop()
        self._ports.release()

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL."""
        self._processes[name].kill()

    def spawn(self, name: str) -> None:
        """Begin to start a process again."""
        self._processes[name].spawn()

    def restart(self, name: str) -> None:
        """Start a process again after `kill`, and wait until it is ready."""
        self._processes[name].start()

    def reconfigure(self, name: str, variables: Mapping[str, str]) -> None:
        """Set environment variables of a process for its later starts."""
        self._environments[name].update(variables)

    def end(self, name: str) -> None:
        """Stop one process in good order and wait."""
        self._processes[name].stop()

    def pause(self, name: str) -> None:
        """Freeze a process (SIGSTOP)."""
        self._processes[name].pause()

    def resume(self, name: str) -> None:
        """Thaw a process."""
        self._processes[name].resume()

    def is_running(self, name: str) -> bool:
        """Return whether a process runs, or begins to."""
        return self._processes[name].is_running

    def is_ready(self, name: str) -> bool:
        """Return whether a process runs and says that it is ready."""
        control = self._processes[name]
        return control.pid is not None and control.is_answering

    def command(self, *arguments: str, within_s: float = 60.0) -> Outcome:
        """Run `sagabus` with these arguments on this system and return what it said."""
        argv = [sys.executable, "-m", "sagabus_cli", *arguments]
        return run(argv, directory=Path.cwd(), environment=self.environment, within_s=within_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def _ensure_topics(self) -> None:
        async with TopicAdmin(self.connection) as admin:
            participants = [kind.name for kind in self._kinds if kind.name in PARTICIPANTS]
            await admin.ensure(self.topics.catalogue(participants, _PARTITIONS))

    def _dsn(self, service: str) -> str:
        return self.servers.dsn(service, self._database_name(service))

    def _database_name(self, service: str) -> str:
        return f"{self.name}_{service}".replace("-", "_")

    def _add(self, kind: ServiceKind, name: str) -> None:
        port = self._ports.take()
        self._environments[name] = self._environment_of(kind, port)
        self._processes[name] = ProcessControl(
            ServerCommand(
                name=name,
                argv=(sys.executable, "-m", kind.module),
                directory=self.directory,
                answers=_ready_at(port),
                environment=self._environments[name],
            )
        )

    def _environment_of(self, kind: ServiceKind, port: int) -> dict[str, str]:
        wanted = {
            "SAGABUS_HEALTH_PORT": str(port),
            "SAGABUS_LOG_FORMAT": "json",
            "SAGABUS_POSTGRES": self._dsn(kind.owner),
            "SAGABUS_POSTGRES_POOL_SIZE": "4",
        }
        if kind.uses_kafka:
            wanted["SAGABUS_KAFKA"] = self.servers.bootstrap
            wanted["SAGABUS_TOPIC_PREFIX"] = self.topics.prefix
        match kind.name:
            case "relay":
                outboxes = {k.name: self._dsn(k.name) for k in self._kinds if k.has_outbox}
                wanted["SAGABUS_OUTBOXES"] = json.dumps(outboxes)
            case "payment":
                wanted["SAGABUS_CARDS_URL"] = self.cards_url
                # Longer than the step's time-out: a slow charge is answered late, not unknown.
                wanted["SAGABUS_CARDS_TIMEOUT_MS"] = "40000"
            case "api":
                wanted["SAGABUS_API_PORT"] = str(self._api_port)
            case "cards":
                wanted["SAGABUS_CARDS_PORT"] = str(self._cards_port)
            case _:
                pass
        return {**wanted, **self._settings.get("*", {}), **self._settings.get(kind.name, {})}


def _ready_at(port: int) -> Callable[[], bool]:
    def answers() -> bool:
        try:
            url = f"http://127.0.0.1:{port}/ready"
            with urllib.request.urlopen(url, timeout=_PROBE_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    return answers
