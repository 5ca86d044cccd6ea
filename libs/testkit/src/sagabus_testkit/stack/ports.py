"""Loopback ports that stay ours from the moment they are chosen until the stack ends."""

from __future__ import annotations

import socket

__all__ = ["LOOPBACK", "ReservedPorts"]

LOOPBACK = "127.0.0.1"


class ReservedPorts:
    """Free loopback ports, held by bound sockets that never listen.

    Linux lets a server with SO_REUSEADDR (Java, Postgres and asyncio set it) listen on such a
    port, but hands it to nobody who asks for any free one: a stopped server finds its port again.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self) -> int:
        """Reserve one more port and return its number."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._held.append(holder)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, 0))
        number: int = holder.getsockname()[1]
        return number

    def release(self) -> None:
        """Give every port back. May be called twice."""
        while self._held:
            self._held.pop().close()
