"""Servers as Docker containers, through testcontainers.

Written to the documentation of testcontainers and of the images: no Docker engine runs on the
project's own machines, so this module is untested there. `SAGABUS_STACK=local` skips it.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.home import StackHome
from sagabus_testkit.stack.kafka import Kafka, ProxiedListener
from sagabus_testkit.stack.kafka_install import KAFKA_VERSION
from sagabus_testkit.stack.kafka_settings import ListenerPorts, broker_settings
from sagabus_testkit.stack.local_postgres import SETTINGS, SUPERUSER
from sagabus_testkit.stack.ports import LOOPBACK
from sagabus_testkit.stack.postgres import Postgres
from sagabus_testkit.stack.probe import kafka_answers, postgres_answers
from sagabus_testkit.stack.waiting import Probe, wait_until

__all__ = ["DockerControl", "docker_answers", "docker_kafka", "docker_postgres"]

KAFKA_IMAGE = f"apache/kafka:{KAFKA_VERSION}"
POSTGRES_IMAGE = "postgres:15"
_START_WITHIN_S = 120.0


def docker_answers() -> bool:
    """Return whether a Docker engine accepts connections, without loading its client."""
    if os.environ.get("SAGABUS_STACK") == "local":
        return False
    address = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    try:
        if address.scheme == "unix":
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as engine:
                engine.connect(address.path)
        else:
            socket.create_connection((address.hostname, address.port or 2375), 1).close()
    except OSError:
        return False
    return True


class DockerControl:
    """Starts, stops and hurts one container; see `Control` for the promises."""

    kind = "docker"
    pid: int | None = None
    log_path: Path | None = None

    def __init__(self, container: Any, answers: Probe) -> None:  # noqa: ANN401 - untyped library
        self._container = container
        self._answers = answers
        self._created = False

    def spawn(self) -> None:
        """Create the container, or start it again."""
        if self._created:
            self._container.get_wrapped_container().start()
        else:
            self._container.start()
            self._created = True

    def wait_ready(self) -> None:
        """Wait until the server answers. Raises `StackError` (`server_not_ready`)."""
        if not wait_until(self._answers, within_s=_START_WITHIN_S):
            raise StackError("server_not_ready", f"{self._container.image} does not answer")

    def start(self) -> None:
        """Start and wait until the server answers."""
        self.spawn()
        self.wait_ready()

    def stop(self, signal_name: str | None = None) -> None:
        """Stop the container by its image's signal, or by the named one, and wait."""
        wrapped = self._container.get_wrapped_container()
        if signal_name is None:
            wrapped.stop(timeout=15)
        else:
            wrapped.kill(signal=signal_name)
            wrapped.wait(timeout=30)

    def kill(self) -> None:
        """End the container with SIGKILL."""
        self._container.get_wrapped_container().kill()

    def pause(self) -> None:
        """Freeze the container."""
        self._container.get_wrapped_container().pause()

    def resume(self) -> None:
        """Thaw the container."""
        self._container.get_wrapped_container().unpause()

    def remove(self) -> None:
        """Remove the container and its data. The reaper of testcontainers does it if we die."""
        self._container.stop(force=True, delete_volume=True)


def docker_kafka(home: StackHome, settings: Mapping[str, str]) -> Kafka:
    """Prepare a broker as a container; the ports inside and outside are the same."""
    take = home.ports.take
    ports = ListenerPorts(take(), take(), take(), take())
    container = _container(KAFKA_IMAGE, (ports.client, ports.proxied))
    chosen = {**broker_settings(ports, "/tmp/kraft-combined-logs"), **settings}  # noqa: S108
    # Inside the container the listeners have to accept what the engine forwards.
    chosen["listeners"] = chosen["listeners"].replace(LOOPBACK, "0.0.0.0")  # noqa: S104
    for key, value in chosen.items():
        container.with_env("KAFKA_" + key.upper().replace(".", "_"), value)
    control = DockerControl(container, lambda: kafka_answers(LOOPBACK, ports.client))
    proxied = ProxiedListener(ports.proxied, ports.proxied_advertised)
    return Kafka(f"{LOOPBACK}:{ports.client}", control, proxied)


def docker_postgres(home: StackHome, settings: Mapping[str, str]) -> Postgres:
    """Prepare a Postgres as a container with the settings of the local one."""
    port, password = home.ports.take(), secrets.token_hex(16)
    container = _container(POSTGRES_IMAGE, (port,))
    container.with_env("POSTGRES_USER", SUPERUSER).with_env("POSTGRES_PASSWORD", password)
    container.with_env("POSTGRES_DB", "postgres")
    chosen = {**SETTINGS, "shared_preload_libraries": "pg_stat_statements", **settings}
    chosen |= {"listen_addresses": "*", "unix_socket_directories": "/var/run/postgresql"}
    chosen["port"] = str(port)
    options = " ".join(f"-c {key}='{value}'" for key, value in chosen.items())
    container.with_command(f"postgres {options}")
    control = DockerControl(container, lambda: postgres_answers(LOOPBACK, port, SUPERUSER))
    dsn = f"postgresql://{SUPERUSER}:{password}@{LOOPBACK}:{port}/postgres"
    return Postgres(dsn, control)


def _container(image: str, ports: tuple[int, ...]) -> Any:  # noqa: ANN401 - untyped library
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - slow, seldom needed

    container = DockerContainer(image)
    for port in ports:
        # Fixed ports: a mapping chosen by the engine would change over a restart.
        container.with_bind_ports(port, port)
    return container
