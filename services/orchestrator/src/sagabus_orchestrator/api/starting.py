"""Starts over HTTP: concurrent ones share a transaction, on the same path as starts from Kafka."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sagabus_core.canonical import canonical_bytes, sha256_hex
from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import MessageError, Record, Stamp, Start, Topics, encode, source_of
from sagabus_orchestrator import start_requests
from sagabus_orchestrator.api.errors import ApiStopping, RivalRequest
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.handler import DatabaseClock, Handler
from sagabus_orchestrator.outcome import Outcome
from sagabus_orchestrator.start_requests import KeptRequest, RequestKey, RequestRow
from sagabus_orchestrator.starts import StartAnswer
from sagabus_orchestrator.works import Intake, StartWork, read_batch
from sagabus_runtime import Pulse
from sagabus_runtime.errors import is_retryable
from sagabus_runtime.failpoints import hit
from sagabus_store import Connection, Database, InboxWindow

__all__ = ["SOURCE", "Started", "Starter"]

SOURCE: Final = source_of("api")
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Started:
    """A saga of a start, new or known before; `revision` None once it is archived."""

    saga_id: str
    start_id: str
    status: SagaStatus
    revision: int | None
    version: int
    created: bool


@dataclass(slots=True)
class _Asked:
    """A start that waits for its transaction."""

    work: StartWork
    key: RequestKey | None
    digest: str
    answer: asyncio.Future[Started] = field(repr=False)

    def settle(self, result: Started | SagabusError | Exception) -> None:
        if self.answer.done():
            return  # the caller has gone; what was committed stays
        if isinstance(result, Exception):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)


class Starter:
    """Takes starts from any number of requests; at most `LANES` transactions are under way."""

    LANES: Final = 2
    BATCH: Final = 200
    ATTEMPTS: Final = 3

    def __init__(
        self, database: Database, handler: Handler, topics: Topics, window: InboxWindow
    ) -> None:
        self._database = database
        self._handler = handler
        self._topics = topics
        self._window_ms = window.days * DAY_MS
        self._clock = DatabaseClock(database)
        self._queue: deque[_Asked] = deque()
        self._busy: set[RequestKey] = set()
        self._filled = asyncio.Event()

    async def start(
        self, body: Start, request_key: str | None, traceparent: str | None = None
    ) -> Started:
        """Start a saga, or return the one that an equal request has started; durable afterwards.

        The same request key with another request is refused (`idempotency_key_reused`). Refusals
        keep nothing: the same request may be sent again. Raises `MessageError`, and what refused
        the start as `SagabusError`.
        """
        work = await self._read(body, traceparent)
        key = (body.tenant, request_key) if request_key is not None else None
        answer: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
        self._queue.append(_Asked(work, key, _digest(body), answer))
        self._filled.set()
        return await answer

    async def run(self, pulse: Pulse) -> None:
        """Decide starts until told to stop: the `run` of a supervised loop."""
        self._busy.clear()
        lanes = [asyncio.create_task(self._lane(), name=f"starts-{n}") for n in range(self.LANES)]
        try:
            while not await pulse.pause(1_000):
                pulse.beat()
                _raise_of(lanes)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)
            self._turn_away()

    async def _lane(self) -> None:
        while True:
            await self._filled.wait()
            batch = self._take()
            if not batch:
                continue  # all that waits follows a key that the other lane has in hand
            await self._settle(batch)
            self._busy -= {asked.key for asked in batch if asked.key is not None}
            if self._queue:
                self._filled.set()

    def _take(self) -> list[_Asked]:
        """Take what waits, but each request key once: its followers are answered from the table."""
        batch: list[_Asked] = []
        later: list[_Asked] = []
        while self._queue and len(batch) < self.BATCH:
            asked = self._queue.popleft()
            if asked.key is None:
                batch.append(asked)
            elif asked.key in self._busy:
                later.append(asked)
            else:
                self._busy.add(asked.key)
                batch.append(asked)
        if not self._queue:
            self._filled.clear()  # what follows a key goes on when that is answered
        self._queue.extendleft(reversed(later))
        return batch

    async def _settle(self, batch: Sequence[_Asked]) -> None:
        try:
            await self._decide(batch)
        except Exception as error:  # noqa: BLE001  (told to every caller; the lane goes on)
            if is_retryable(error) or len(batch) == 1:
                _tell(batch, error)
                return
            for asked in batch:  # one that breaks the code must not fail its neighbours
                await self._settle([asked])
        except BaseException:
            _tell(batch, ApiStopping("api_stopping", "this replica stops: ask again"))
            raise

    async def _decide(self, batch: Sequence[_Asked]) -> None:
        for attempt in range(self.ATTEMPTS):
            fresh = await self._answer_known([a for a in batch if not a.answer.done()])
            if not fresh:
                return
            try:
                outcome = await self._handler.settle(
                    Intake([asked.work for asked in fresh]), _keeping(fresh)
                )
            except RivalRequest:
                if attempt + 1 == self.ATTEMPTS:
                    raise
                continue
            hit("api.after-start")
            _answer(fresh, outcome)
            return

    async def _answer_known(self, batch: Sequence[_Asked]) -> list[_Asked]:
        """Answer those whose key was used before; returns the others."""
        keys = {asked.key for asked in batch if asked.key is not None}
        if not keys:
            return list(batch)
        async with self._database.connection() as conn:
            found = await start_requests.known(conn, keys)
        fresh: list[_Asked] = []
        for asked in batch:
            kept = found.get(asked.key) if asked.key is not None else None
            if kept is None:
                fresh.append(asked)
            else:
                asked.settle(_repeated(asked, kept))
        return fresh

    async def _read(self, body: Start, traceparent: str | None) -> StartWork:
        """Let a start pass the same door as a record."""
        now_ms = await self._clock.now_ms()
        stamp = Stamp(SOURCE, now_ms, traceparent)
        row = encode(body, self._topics.start, stamp, ce_id=str(uuid.uuid4()))
        record = Record(row.topic, 0, 0, row.key, row.value, row.headers, now_ms)
        intake = read_batch([record], self._topics, now_ms=now_ms, window_ms=self._window_ms)
        for rejected in intake.rejected:
            raise MessageError(rejected.reason.code, rejected.reason.detail)
        (work,) = (work for work in intake.works if isinstance(work, StartWork))
        return work

    def _turn_away(self) -> None:
        waiting, self._queue = self._queue, deque()
        self._filled.clear()
        _tell(waiting, ApiStopping("api_stopping", "this replica stops: ask again"))


def _raise_of(lanes: Iterable[asyncio.Task[None]]) -> None:
    for lane in lanes:
        if lane.done():
            lane.result()


def _keeping(fresh: Sequence[_Asked]) -> Callable[[Connection, Outcome], Awaitable[None]]:
    """Return what notes the keys of starts that have a saga, in the transaction of the starts."""
    by_id = {asked.work.meta.ce_id: asked for asked in fresh}

    async def keep(conn: Connection, outcome: Outcome) -> None:
        rows = [
            RequestRow(asked.key, asked.digest, asked.work.saga_id, asked.work.meta.ce_id)
            for answer in outcome.answers
            if (asked := by_id[answer.work.meta.ce_id]).key is not None
            and not isinstance(answer.result, SagabusError)
        ]
        if not await start_requests.keep(conn, rows):
            raise RivalRequest("rival_request", "the same request was answered elsewhere just now")

    return keep


def _answer(fresh: Sequence[_Asked], outcome: Outcome) -> None:
    by_id = {answer.work.meta.ce_id: answer for answer in outcome.answers}
    for asked in fresh:
        asked.settle(_told(by_id[asked.work.meta.ce_id]))


def _told(answer: StartAnswer) -> Started | SagabusError:
    known = answer.result
    if isinstance(known, SagabusError):
        return known
    return Started(
        saga_id=answer.work.saga_id,
        start_id=answer.work.meta.ce_id,
        status=known.status,
        revision=known.revision,
        version=known.ref.version,
        created=answer.created,
    )


def _repeated(asked: _Asked, kept: KeptRequest) -> Started | Refused:
    if kept.row.digest != asked.digest:
        return Refused(
            "idempotency_key_reused",
            "this Idempotency-Key started something else before: choose a new one per request",
        )
    return Started(
        kept.row.saga_id, kept.row.start_id, kept.status, kept.revision, kept.version, created=False
    )


def _tell(batch: Iterable[_Asked], error: Exception) -> None:
    for asked in batch:
        asked.settle(error)


def _digest(body: Start) -> str:
    """Return what a repeated request key is compared by: everything that was asked."""
    payload = body.payload
    return sha256_hex(
        canonical_bytes(
            [
                *(body.tenant, body.workflow, body.business_key),
                *(body.definition_version, body.deadline_at_ms),
                payload.content_type if payload else None,
                payload.schema_id if payload else None,
                hashlib.sha256(payload.body).hexdigest() if payload else None,
            ]
        )
    )
