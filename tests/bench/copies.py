"""Fills a service's tables by COPY with copies of one of its own rows under other ids.

Postgres tells the model's rows in the binary format of COPY, and is given them back in it with a
few fields changed: 16 bytes of an id, 8 of a time, a text. Nothing is parsed into values between.
"""

from __future__ import annotations

import io
import struct
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

import asyncpg

__all__ = ["Fields", "Model", "instant"]

Fields: TypeAlias = Mapping[str, bytes]
"""Columns that differ from the model, in binary."""

HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END: Final = struct.pack("!h", -1)
EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
PIECE: Final = 1 << 18
"""Bytes that are sent at once."""


def instant(at: datetime) -> bytes:
    """Return a timestamptz in binary: microseconds since 2000."""
    since = at - EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return struct.pack("!q", micros)


@dataclass(frozen=True, slots=True)
class Model:
    """Rows of a table that belong to one thing, ready to be written again under other names."""

    table: str
    columns: Sequence[str]
    rows: Sequence[Sequence[bytes]]
    """Each field with its length before it."""

    @classmethod
    async def read(
        cls, conn: asyncpg.Connection, table: str, columns: Sequence[str], where: str
    ) -> Model:
        """Return the rows of `table` for which `where` holds; raises where there are none."""
        stream = io.BytesIO()
        query = f"select {', '.join(columns)} from {table} where {where}"
        await conn.copy_from_query(query, output=stream, format="binary")
        rows = list(_rows(stream.getvalue()))
        if not rows:
            raise RuntimeError(f"no row of {table} to copy: {where}")
        return cls(table, columns, rows)

    async def write(self, conn: asyncpg.Connection, changes: Iterator[Fields]) -> None:
        """Add one copy of all rows for each of `changes`, all of them in one COPY."""
        await conn.copy_to_table(
            self.table, columns=list(self.columns), source=self._pieces(changes), format="binary"
        )

    async def _pieces(self, changes: Iterator[Fields]) -> AsyncIterator[bytes]:
        piece = bytearray(HEAD)
        count = struct.pack("!h", len(self.columns))
        for fields in changes:
            changed = {name: _sized(value) for name, value in fields.items()}
            for row in self.rows:
                piece += count
                for name, old in zip(self.columns, row, strict=True):
                    piece += changed.get(name, old)
            if len(piece) >= PIECE:
                yield bytes(piece)
                piece.clear()
        yield bytes(piece) + END


def _sized(value: bytes) -> bytes:
    return struct.pack("!i", len(value)) + value


def _rows(stream: bytes) -> Iterator[list[bytes]]:
    """Take a binary COPY apart, into fields with their lengths."""
    at = len(HEAD)
    while (columns := struct.unpack_from("!h", stream, at)[0]) >= 0:
        at += 2
        row = []
        for _ in range(columns):
            length = 4 + max(0, struct.unpack_from("!i", stream, at)[0])
            row.append(stream[at : at + length])
            at += length
        yield row
