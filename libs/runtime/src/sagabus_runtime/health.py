"""Whether a service lives and whether it is ready, over a tiny HTTP server.

`/live` fails when a supervised loop gave no sign of life within its deadline: restart me.
`/ready` fails while a check fails or a loop is backing off: send me nothing, wait.
`/metrics` is the Prometheus text of the service's registry.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from sagabus_runtime.logs import get_logger
from sagabus_runtime.names import (
    EVENT_HEALTH_CHECK_BROKEN,
    FIELD_REASON,
    METRIC_LOOP_BEAT_AGE,
    METRIC_READY,
)

__all__ = ["Check", "Health", "HealthServer", "Pulse"]

Check: TypeAlias = Callable[[], Awaitable[str | None]]
"""Returns None when all is well, else one sentence that says why the service is not ready."""

CHECK_TIMEOUT_S: Final = 2.0
REQUEST_TIMEOUT_S: Final = 5.0
CONTENT_JSON: Final = "application/json"
CONTENT_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_STATUS_TEXT: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed"}


class Pulse:
    """The sign of life of one supervised loop, and how the loop learns that it should end."""

    def __init__(
        self,
        name: str,
        deadline_ms: int,
        stop: asyncio.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.deadline_ms = deadline_ms
        self.trouble: str | None = None
        """Why the loop is not at work; cleared by its next beat."""
        self._stop = stop
        self._clock = clock
        self._last = clock()

    @property
    def stopping(self) -> bool:
        """Whether the loop should finish the work in hand and return."""
        return self._stop.is_set()

    @property
    def age_ms(self) -> int:
        """Milliseconds since the last sign of life."""
        return int((self._clock() - self._last) * 1000)

    @property
    def stalled(self) -> bool:
        """Whether the loop missed its deadline."""
        return self.age_ms > self.deadline_ms

    def beat(self) -> None:
        """Say that the loop goes round; cheap enough for every round."""
        self._last = self._clock()
        self.trouble = None

    def excuse(self, trouble: str) -> None:
        """Live on while not at work: an outage elsewhere is no reason to be restarted."""
        self._last = self._clock()
        self.trouble = trouble

    async def pause(self, ms: float) -> bool:
        """Wait up to `ms` milliseconds; return True at once when asked to stop."""
        try:
            async with asyncio.timeout(ms / 1000):
                return await self._stop.wait()
        except TimeoutError:
            return self._stop.is_set()


class Health:
    """What a service knows about itself; made by `build`, asked by the health server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.stop = asyncio.Event()
        """Set once when the service should end; every pulse shows it to its loop."""
        self.unready: str | None = "starting"
        """Why the service as a whole is not ready; managed by the lifecycle."""
        self._checks: dict[str, Check] = {}
        self._pulses: dict[str, Pulse] = {}
        self._age = Gauge(
            METRIC_LOOP_BEAT_AGE, "Age of a loop's last beat", ["loop"], registry=registry
        )
        self._ready = Gauge(METRIC_READY, "1 while the service is ready", registry=registry)

    def add_check(self, name: str, check: Check) -> None:
        """Make readiness depend on `check`; it has two seconds to answer."""
        self._checks[name] = check

    def pulse(self, name: str, deadline_ms: int) -> Pulse:
        """Return the pulse of the loop `name`, which fails liveness after `deadline_ms`."""
        self._pulses[name] = Pulse(name, deadline_ms, self.stop)
        return self._pulses[name]

    def stalled(self) -> dict[str, str]:
        """Return the loops that missed their deadline, with what is wrong."""
        return {
            pulse.name: f"no sign of life for {pulse.age_ms} ms (deadline {pulse.deadline_ms} ms)"
            for pulse in self._pulses.values()
            if pulse.stalled
        }

    async def failing(self) -> dict[str, str]:
        """Return everything that keeps the service from being ready, by name."""
        names = list(self._checks)
        answers = await asyncio.gather(*(self._ask(name) for name in names))
        found = {name: answer for name, answer in zip(names, answers, strict=True) if answer}
        found |= {p.name: p.trouble for p in self._pulses.values() if p.trouble}
        if self.unready:
            found["service"] = self.unready
        self._ready.set(not found)
        return found

    def exposition(self) -> bytes:
        """Return the metrics of the service in the Prometheus text format."""
        for pulse in self._pulses.values():
            self._age.labels(pulse.name).set(pulse.age_ms / 1000)
        return generate_latest(self.registry)

    async def _ask(self, name: str) -> str | None:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                return await self._checks[name]()
        except TimeoutError:
            return "the check did not answer in time"
        except Exception as broken:  # noqa: BLE001  (a broken check means not ready, not no answer)
            get_logger().warning(
                EVENT_HEALTH_CHECK_BROKEN, check=name, **{FIELD_REASON: repr(broken)}
            )
            return f"the check failed: {type(broken).__name__}"


class HealthServer:
    """Serves `/live`, `/ready` and `/metrics` with one short answer per connection."""

    def __init__(self, health: Health, host: str = "127.0.0.1", port: int = 0) -> None:
        self._health = health
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port in use: the one asked for or, for 0, the free one that was found."""
        if self._server is None or not self._server.sockets:
            return self._port
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen. Raises OSError if the port is taken."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port)

    async def close(self) -> None:
        """Stop listening; safe to call twice."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._respond(head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a probe that hangs up or talks nonsense is not worth a line
        finally:
            writer.close()

    async def _respond(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in {b"GET", b"HEAD"}:
            return _response(405, CONTENT_JSON, _json({"error": "only GET is served"}))
        match path:
            case b"/live":
                stalled = self._health.stalled()
                body = _json({"live": not stalled, "stalled": stalled})
                return _response(503 if stalled else 200, CONTENT_JSON, body)
            case b"/ready":
                failing = await self._health.failing()
                body = _json({"ready": not failing, "failing": failing})
                return _response(503 if failing else 200, CONTENT_JSON, body)
            case b"/metrics":
                await self._health.failing()
                return _response(200, CONTENT_METRICS, self._health.exposition())
            case _:
                return _response(404, CONTENT_JSON, _json({"error": "try /live /ready /metrics"}))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _response(status: int, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_STATUS_TEXT.get(status, 'Service Unavailable')}\r\n"
        f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
