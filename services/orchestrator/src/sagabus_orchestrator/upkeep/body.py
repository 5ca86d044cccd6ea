"""What the archive keeps of a saga: snapshot and facts, byte for byte, compressed. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sagabus_core.errors import InvalidValue

__all__ = ["ArchivedFact", "Body", "pack", "unpack"]

_VERSION: Final = 1
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class ArchivedFact:
    """One journal row: `fact` and `head` as they were stored."""

    revision: int
    ordinal: int
    fact: bytes
    head: bytes
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Body:
    """The content of one archived saga; its facts in order."""

    snapshot: bytes
    facts: tuple[ArchivedFact, ...]

    def with_more(self, snapshot: bytes, facts: Iterable[ArchivedFact]) -> Body:
        """Return the body after another decision."""
        return Body(snapshot, (*self.facts, *facts))


def pack(body: Body) -> bytes:
    """Return the stored form. Snapshot and facts are JSON texts already, so they stay texts."""
    document = {
        "v": _VERSION,
        "snapshot": body.snapshot.decode(),
        "facts": [
            [f.revision, f.ordinal, f.fact.decode(), f.head.hex(), f.recorded_at.isoformat()]
            for f in body.facts
        ],
    }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), _LEVEL)


def unpack(stored: bytes) -> Body:
    """Return what `pack` stored. Raises `InvalidValue` (`archive_too_new`) for a later form."""
    document = json.loads(zlib.decompress(stored))
    if document["v"] > _VERSION:
        raise InvalidValue("archive_too_new", "a newer release wrote this: upgrade this one")
    facts = (
        ArchivedFact(
            revision, ordinal, fact.encode(), bytes.fromhex(head), datetime.fromisoformat(at)
        )
        for revision, ordinal, fact, head, at in document["facts"]
    )
    return Body(document["snapshot"].encode(), tuple(facts))
