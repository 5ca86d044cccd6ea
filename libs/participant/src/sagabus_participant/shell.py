"""What the parts of one running participant share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from sagabus_bus.signatures import RecordCheck
from sagabus_messages import UNVERIFIED, Signer, Topics
from sagabus_participant.calls import Calls
from sagabus_participant.registry import Participant
from sagabus_participant.retention import Retention
from sagabus_participant.session import Session
from sagabus_participant.telemetry import Meters
from sagabus_participant.watch import Watch
from sagabus_runtime.backoff import BackOff, BackOffPolicy
from sagabus_runtime.telemetry import Tracing
from sagabus_store import Connection, Database, InboxWindow

__all__ = ["Shell"]


@dataclass(frozen=True, slots=True)
class Shell:
    """Connections, names and policies; `work_came` wakes the workers of this process."""

    participant: Participant
    db: Database
    topics: Topics
    meters: Meters
    window: InboxWindow
    tracing: Tracing | None = None
    retention: Retention = field(default_factory=lambda: Retention(400))
    signer: Signer | None = None
    commands: RecordCheck = UNVERIFIED
    retry: BackOffPolicy = field(default_factory=lambda: BackOffPolicy(200, 5_000))
    work_came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def consumer(self) -> str:
        """The inbox consumer and Kafka group of this participant."""
        return f"sagabus.{self.participant.name}.v1"

    def calls(self) -> Calls:
        """Return what calls handlers, with spans where tracing is on."""
        return Calls(Watch(self.meters, self.tracing))

    def session(self, conn: Connection) -> Session:
        """Return a new session in an open transaction."""
        return Session(conn, self.topics, self.participant.name, self.signer)

    def retry_at_ms(self, now_ms: int, tries: int, expires_at_ms: int) -> int:
        """Return when to try again after `tries` attempts; never later than the expiry."""
        back_off = BackOff(self.retry)
        wait_ms = 0
        for _ in range(min(max(tries, 1), 20)):
            wait_ms = back_off.next_ms()
        # Due at the expiry at the latest: that is when the command is finished without a call.
        return max(min(now_ms + wait_ms, expires_at_ms), now_ms)
