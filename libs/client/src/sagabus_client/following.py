"""Changes of status over HTTP: server-sent events that come on over outages.

Pure but for `Patience`, which is told the time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sagabus_client.errors import ApiUnreachable
from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import parse_strict
from sagabus_messages.instants import parse_instant

__all__ = ["OUTAGE_S", "Followed", "Patience", "ServerEvent", "StatusChange", "read_events"]

OUTAGE_S: Final = 300.0
"""How long an outage may last before whoever follows gives up, unless told otherwise."""
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Followed:
    """Which changes; None and nothing do not restrict. Of one saga if `saga_id` is given."""

    tenant: str | None = None
    workflow: str | None = None
    statuses: Sequence[SagaStatus] = ()
    saga_id: str | None = None

    @property
    def path(self) -> str:
        """Where the API streams them."""
        return "/v1/events" if self.saga_id is None else f"/v1/sagas/{self.saga_id}/events"

    @property
    def params(self) -> dict[str, Any]:
        """What it is asked."""
        if self.saga_id is not None:
            return {}
        told = {"tenant": self.tenant, "workflow": self.workflow}
        asked: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
        return {**asked, "status": [status.value for status in self.statuses]}


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A saga began (`before` is None) or changed its status; `event_id` resumes behind it."""

    event_id: int
    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    revision: int
    before: SagaStatus | None
    status: SagaStatus
    reason: str | None
    recorded_at_ms: int


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream; without data it only says where to resume."""

    id: int | None
    data: bytes | None

    def change(self) -> StatusChange | None:
        """Return the change that it tells of, None if of none."""
        if self.data is None or self.id is None:
            return None
        told: Any = parse_strict(self.data)
        before = told["before"]
        return StatusChange(
            event_id=self.id,
            before=None if before is None else SagaStatus(before),
            status=SagaStatus(told["status"]),
            recorded_at_ms=parse_instant(told["recorded_at"]),
            **{name: told[name] for name in _PLAIN},
        )


_PLAIN: Final = ("saga_id", "tenant", "workflow", "business_key", "revision", "reason")


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerEvent]:
    """Yield the events of a stream; one that is cut in two is none.

    Lines end as the standard says, and only so: a text may hold other separators of lines.
    """
    rest, lines = b"", list[bytes]()
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.rstrip(b"\r"):
                lines.append(line.rstrip(b"\r"))
            elif lines:
                yield _event(lines)
                lines = []


def _event(lines: Sequence[bytes]) -> ServerEvent:
    number, data = None, list[bytes]()
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id" and value.isdigit():
            number = int(value)
        elif name == b"data":
            data.append(value)
    return ServerEvent(number, b"\n".join(data) if data else None)


@dataclass(slots=True)
class Patience:
    """How long to wait before the next try, and when to give up: `outage_s` after the last answer.

    Give it the time in seconds of a clock that never goes back.
    """

    outage_s: float = OUTAGE_S
    _since_s: float | None = field(default=None, init=False)
    _pause_s: float = field(default=_FIRST_PAUSE_S, init=False)

    def answered(self) -> None:
        """Forget the outage, if there was one."""
        self._since_s, self._pause_s = None, _FIRST_PAUSE_S

    def pause_after(self, now_s: float) -> float | None:
        """Return how long to wait after a try that failed; None: give up."""
        if self._since_s is None:
            self._since_s = now_s
        left_s = self._since_s + self.outage_s - now_s
        if left_s <= 0:
            return None
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return min(pause_s, left_s)

    def gave_up(self, error: SagabusError) -> ApiUnreachable:
        """Return the error that says so."""
        return ApiUnreachable(error.code, f"{error.detail}; gave up after {self.outage_s:g} s")
