"""Kafka of the local stack: its address, a second door for fault proxies, power over the broker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sagabus_testkit.stack.control import Control

__all__ = ["Kafka", "ProxiedListener", "SecureListener"]


@dataclass(frozen=True, slots=True)
class ProxiedListener:
    """A second listener of the broker, whose advertised port nobody listens on yet.

    A proxy that listens on `advertised_port` and forwards to `port` sees all traffic of clients
    that bootstrap through it: the broker's metadata sends them to the proxy, never around it.
    """

    port: int
    advertised_port: int

    @property
    def bootstrap(self) -> str:
        """The address for clients that shall go through the proxy."""
        return f"127.0.0.1:{self.advertised_port}"


@dataclass(frozen=True, slots=True)
class SecureListener:
    """A listener with TLS and SASL; clients trust it by `ca_file`.

    At `mutual` is another, without SASL, which asks every client for a certificate of its
    authority: `client_file` is one, with its key, and `expired_file` was one until yesterday.
    """

    bootstrap: str
    ca_file: Path
    mutual: str
    client_file: Path
    expired_file: Path


@dataclass(frozen=True, slots=True)
class Kafka:
    """A Kafka broker: `bootstrap` is host:port. Topics are never created by use.

    Every method blocks; call them from asynchronous code through `asyncio.to_thread`. Address and
    data stay the same over stop, kill and start. `proxied` is None for a broker that the
    environment names. Errors: `StackError`.
    """

    bootstrap: str
    control: Control
    proxied: ProxiedListener | None = None
    secure: SecureListener | None = None

    @property
    def pid(self) -> int | None:
        """The id of the broker's process while it runs as a process of this stack."""
        return self.control.pid

    def start(self) -> None:
        """Start again after `stop` or `kill`; returns once the broker is registered and answers."""
        self.control.start()

    def stop(self) -> None:
        """Stop in good order (controlled shutdown) and wait."""
        self.control.stop()

    def kill(self) -> None:
        """Kill the broker (SIGKILL). The next start waits about 3 s for its old session to end."""
        self.control.kill()

    def pause(self) -> None:
        """Freeze the broker: connections stay open and nothing answers."""
        self.control.pause()

    def resume(self) -> None:
        """Thaw the broker."""
        self.control.resume()
