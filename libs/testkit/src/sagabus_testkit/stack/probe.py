"""Ask a server by its own protocol whether it works, with nothing but a socket."""

from __future__ import annotations

import socket
import struct

__all__ = ["kafka_answers", "postgres_answers"]

_TIMEOUT_S = 2.0
_METADATA, _VERSION_1, _NO_CLIENT_ID, _NO_TOPICS = 3, 1, -1, 0
_PROTOCOL_3 = 196608


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError
        received += chunk
    return received


def kafka_answers(host: str, port: int) -> bool:
    """Return whether a broker answers a Metadata request and lists at least one live broker."""
    body = struct.pack(">hhihi", _METADATA, _VERSION_1, 1, _NO_CLIENT_ID, _NO_TOPICS)
    try:
        with socket.create_connection((host, port), _TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            correlation_and_count = _receive(connection, size)[:8]
    except OSError:
        return False
    return len(correlation_and_count) == 8 and struct.unpack(">ii", correlation_and_count)[1] > 0


def postgres_answers(host: str, port: int, user: str) -> bool:
    """Return whether Postgres gets as far as asking for a password: it is up."""
    body = struct.pack(">i", _PROTOCOL_3) + f"user\0{user}\0database\0postgres\0\0".encode()
    try:
        with socket.create_connection((host, port), _TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(body) + 4) + body)
            return _receive(connection, 1) == b"R"
    except OSError:
        return False
