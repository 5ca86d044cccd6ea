"""Uvicorn as one supervised loop: it listens before it is ready, and drains before it ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_orchestrator.api.wire import DEFAULT_LIMITS, WireLimits, bounded_protocol
from sagabus_runtime import Pulse, get_logger

__all__ = ["HttpServer"]

BACKLOG: Final = 1_024
KEEP_ALIVE_S: Final = 75
"""Longer than common load balancers keep idle connections, so that they close first."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the service, whose loops stop in their order."""
        yield


class HttpServer:
    """Serves an app on one port until its pulse stops."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        metrics: ApiMetrics,
        limits: WireLimits = DEFAULT_LIMITS,
    ) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._protocol = bounded_protocol(limits, metrics)
        self._socket: socket.socket | None = None

    @property
    def port(self) -> int:
        """The port in use; before `listen` the one asked for."""
        return int(self._socket.getsockname()[1]) if self._socket is not None else self._port

    def listen(self) -> None:
        """Take the port. Raises OSError if it is taken."""
        if self._socket is not None:
            return
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        taken = socket.socket(family)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((self._host, self._port))
        except OSError:
            taken.close()
            raise
        self._socket = taken
        get_logger().info("api.listening", host=self._host, port=self.port)

    def close(self) -> None:
        """Give the port back; safe to call twice."""
        taken, self._socket = self._socket, None
        if taken is not None:
            taken.close()

    async def run(self, pulse: Pulse) -> None:
        """Serve until told to stop, then finish what is in hand: the `run` of a supervised loop."""
        self.listen()
        server = _Server(self._config())
        sockets = [self._socket] if self._socket is not None else None
        serving = asyncio.create_task(server.serve(sockets=sockets), name="uvicorn")
        try:
            while not serving.done() and not await pulse.pause(1_000):
                pulse.beat()
            server.should_exit = True
            await serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            self._socket = None  # uvicorn has closed it; the next run takes the port anew

    def _config(self) -> uvicorn.Config:
        return uvicorn.Config(
            self._app,
            http=self._protocol,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=10,
        )
