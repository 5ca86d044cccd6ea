"""A TCP proxy that misbehaves on command: what a network does to a client of Kafka or Postgres."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from types import TracebackType
from typing import Any, Literal, Self

__all__ = ["Flow", "TcpProxy"]

Flow = Literal["to_server", "to_client"]
BOTH: tuple[Flow, Flow] = ("to_server", "to_client")
_HOST = "127.0.0.1"
_CHUNK_BYTES = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class TcpProxy:
    """Forwards `port` on loopback to a server on loopback, faithfully until told otherwise.

        async with TcpProxy(stack.postgres.port) as proxy:
            dsn = stack.postgres.dsn_for("orders", port=proxy.port)
            proxy.stall("to_client")

    For Kafka listen where the broker sends its clients:
    `TcpProxy(kafka.proxied.port, listen_port=kafka.proxied.advertised_port)`, and bootstrap at
    `kafka.proxied.bootstrap`. Faults add up until `restore`; bytes are held back or lost with
    their connection, never changed, repeated or reordered. To be used from its own event loop.
    """

    def __init__(self, target_port: int, *, listen_port: int = 0) -> None:
        self.port = listen_port
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._open = {flow: asyncio.Event() for flow in BOTH}
        self._delay_s = 0.0

    @property
    def connections(self) -> int:
        """How many clients are connected through the proxy."""
        return len(self._connections)

    async def start(self) -> Self:
        """Begin to listen; `port` is the chosen one from now on."""
        await self.restore()
        return self

    async def stop(self) -> None:
        """End every connection and the proxy. May be called twice."""
        await self.refuse()
        while self._connections:
            await asyncio.wait([connection.task for connection in self._connections])

    def cut(self) -> None:
        """Reset every connection (RST); new ones are welcome."""
        for connection in self._connections:
            connection.reset()

    async def refuse(self) -> None:
        """Reset every connection and refuse new ones, as a host without the server does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def stall(self, *flows: Flow) -> None:
        """Forward nothing in these directions (none named: both), as a lost route does.

        Connections stay open and new ones are accepted; `restore` delivers what was held back.
        """
        for flow in flows or BOTH:
            self._open[flow].clear()

    def delay(self, seconds: float) -> None:
        """Hold back every chunk of bytes, in both directions, for so long."""
        self._delay_s = seconds

    async def restore(self) -> None:
        """Forward everything at once again and accept connections."""
        self._delay_s = 0.0
        for event in self._open.values():
            event.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, _HOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def lets_through(self, line: object, flow: Flow, chunk: bytes) -> bool:
        """Return whether `chunk` may go its way on `line`, one connection; else that is reset.

        The plain proxy does not look. Whoever knows the protocol can cut at a chosen message.
        """
        del line, flow, chunk
        return True

    async def pass_on(self, flow: Flow) -> None:
        """Wait until a chunk may go its way: the faults of this moment apply to it."""
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        await self._open[flow].wait()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        connection = _Connection(self, task, writer)
        self._connections.add(connection)
        try:
            await connection.serve(reader, self._target_port)
        finally:
            connection.reset()
            self._connections.discard(connection)


class _Connection:
    """One client, and the proxy's own connection to the server for it."""

    def __init__(
        self, proxy: TcpProxy, task: asyncio.Task[None], client: asyncio.StreamWriter
    ) -> None:
        self.task = task
        self._proxy = proxy
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._ended = asyncio.Event()

    async def serve(self, from_client: asyncio.StreamReader, target_port: int) -> None:
        """Forward until both sides have ended, one broke, or `reset` was called."""
        with contextlib.suppress(OSError):
            from_server, self._server = await asyncio.open_connection(_HOST, target_port)
            pumps = asyncio.gather(
                self._pump(from_client, self._server, "to_server"),
                self._pump(from_server, self._client, "to_client"),
            )
            reset = asyncio.ensure_future(self._ended.wait())
            both: tuple[asyncio.Future[Any], ...] = (pumps, reset)
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for unfinished in both:
                unfinished.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    def reset(self) -> None:
        """Close both sides at once; a side that has not ended by itself sees a reset."""
        self._ended.set()
        for writer in (self._client, self._server):
            if writer is None or writer.is_closing():
                continue
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flow: Flow
    ) -> None:
        while chunk := await source.read(_CHUNK_BYTES):
            await self._proxy.pass_on(flow)
            if not self._proxy.lets_through(self, flow, chunk):
                self.reset()
                return
            sink.write(chunk)
            await sink.drain()
        await self._proxy.pass_on(flow)
        sink.write_eof()
