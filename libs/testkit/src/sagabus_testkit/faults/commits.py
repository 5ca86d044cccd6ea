"""A proxy before Postgres that loses the connection while a transaction commits."""

from __future__ import annotations

from enum import Enum
from typing import Final

from sagabus_testkit.proxy import Flow, TcpProxy

__all__ = ["CommitCutter", "CommitFate"]

# A simple query, as asyncpg ends its transactions: 'Q', length, text, zero.
# https://www.postgresql.org/docs/current/protocol-message-formats.html
_COMMIT: Final = b"Q\x00\x00\x00\x0cCOMMIT;\x00"


class CommitFate(Enum):
    """What becomes of the transaction; its client sees the same loss both times."""

    LOST = "COMMIT never reaches the server, which rolls back"
    DONE = "the server commits, its answer is lost"


class CommitCutter(TcpProxy):
    """A `TcpProxy` that can reset connections between COMMIT and its answer."""

    def __init__(self, target_port: int, *, listen_port: int = 0) -> None:
        super().__init__(target_port, listen_port=listen_port)
        self._fate = CommitFate.LOST
        self._to_cut = 0
        self._awaiting: set[object] = set()
        self.commits_cut = 0

    def cut_commits(self, fate: CommitFate, times: int) -> None:
        """Let the next `times` commits end so; `commits_cut` counts those that have."""
        self._fate = fate
        self._to_cut = times

    def lets_through(self, line: object, flow: Flow, chunk: bytes) -> bool:
        """Reset the connection at its COMMIT, or at the server's answer to it."""
        if flow == "to_client":
            return not self._cuts_answer(line)
        if self._to_cut == 0 or not chunk.endswith(_COMMIT):
            return True
        self._to_cut -= 1
        if self._fate is CommitFate.DONE:
            self._awaiting.add(line)
            return True
        self.commits_cut += 1
        return False

    def _cuts_answer(self, line: object) -> bool:
        if line not in self._awaiting:
            return False
        self._awaiting.discard(line)
        self.commits_cut += 1
        return True
