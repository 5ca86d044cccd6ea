"""A real participant process in this event loop, whose steps do what is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from sagabus_participant import (
    Cancelled,
    Compensated,
    Context,
    Executed,
    ExecutedLocally,
    ExternalContext,
    ExternalStep,
    Extras,
    LocalContext,
    LocalStep,
    Participant,
    ParticipantService,
    ParticipantSettings,
    Resolved,
    Running,
    StepOptions,
    Undone,
    Unknown,
)
from sagabus_runtime.lifecycle import Loop, ServeOptions, serve
from sagabus_testkit.live.part import Part
from sagabus_testkit.memory.errors import KitError
from sagabus_testkit.memory.script import Crash
from sagabus_testkit.memory.stubs import (
    Acts,
    Anything,
    Books,
    ScriptedLocal,
    ScriptedRetriable,
    ScriptedStep,
)

__all__ = ["LiveParticipant"]

A = TypeVar("A")


class LiveParticipant:
    """Runs one participant for all workflows in `parts`; `async with` starts and stops it."""

    def __init__(self, name: str, settings: ParticipantSettings, parts: Mapping[str, Part]) -> None:
        self._participant = Participant(name)
        self._parts = parts
        self._running: Running | None = None
        self._callbacks: set[asyncio.Task[None]] = set()
        self._service = ParticipantService(
            self._participant, settings, Extras(loops=self._take_running)
        )
        self._serving: asyncio.Task[object] | None = None
        self._local_calls: set[tuple[object, ...]] = set()

    def add(self, step: str, *, local: bool = False, retriable: bool = False) -> None:
        """Register a step; input and output schemas are the usual ones of its name."""
        handler = _Local(self) if local else _Retriable(self) if retriable else _External(self)
        self._participant.add(step, Anything, handler, StepOptions(retriable=retriable))

    async def __aenter__(self) -> Self:
        self._serving = asyncio.create_task(serve(self._service, ServeOptions()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._callbacks:
            task.cancel()
        self._service.health.stop.set()
        if self._serving is not None:
            await self._serving

    def part_of(self, ctx: Context) -> tuple[Acts, Books]:
        """Return what a call is to do, and the books that it writes."""
        part = self._parts[ctx.workflow]
        return part.acts.get(ctx.step, Acts()), part.books

    def note(self, ctx: Context, handler: str) -> None:
        """Log a call."""
        self._parts[ctx.workflow].calls.append(f"{ctx.activation}.{handler}")

    def note_local(self, ctx: LocalContext, handler: str) -> None:
        """Log a local call, once in its transaction: the SDK may take it back and make it again."""
        call = (ctx.conn, ctx.idempotency_key, ctx.attempt, handler)
        if call not in self._local_calls:
            self._local_calls.add(call)
            self.note(ctx, handler)

    async def with_faults(self, ctx: Context, handler: str, call: Callable[[], Awaitable[A]]) -> A:
        """Call, and suffer what is scripted: dying is being cancelled, as by a killed process."""
        fault = self._parts[ctx.workflow].script.about_call(ctx)
        if fault.crash is Crash.BEFORE_CALL:
            raise asyncio.CancelledError
        self.note(ctx, handler)
        found = await call()
        if fault.crash is Crash.AFTER_CALL:
            raise asyncio.CancelledError
        if fault.slow_ms:
            await asyncio.sleep(fault.slow_ms / 1000)
        if fault.callback is not None and isinstance(found, Unknown):
            task = asyncio.create_task(self._call_back(ctx))
            self._callbacks.add(task)
        return found

    async def _call_back(self, ctx: Context) -> None:
        fault = self._parts[ctx.workflow].script.about_call(ctx)
        if self._running is None or fault.callback is None:
            raise KitError("nothing_to_call_back", f"{ctx.activation} has no callback")
        after_ms, outcome = fault.callback
        await asyncio.sleep(after_ms / 1000)
        async with self._running.db.transaction() as conn:
            await self._running.callbacks.report(conn, ctx.idempotency_key, outcome)

    def _take_running(self, running: Running) -> Sequence[Loop]:
        self._running = running
        return ()


class _External(ExternalStep[Anything]):
    """An external step whose calls suffer faults."""

    def __init__(self, live: LiveParticipant) -> None:
        self._live, self._step = live, ScriptedStep(live.part_of)

    async def execute(self, ctx: ExternalContext, order: Anything) -> Executed:
        return await self._live.with_faults(ctx, "execute", lambda: self._step.execute(ctx, order))

    async def compensate(self, ctx: ExternalContext) -> Compensated:
        return await self._live.with_faults(ctx, "compensate", lambda: self._step.compensate(ctx))

    async def cancel(self, ctx: ExternalContext) -> Cancelled:
        return await self._live.with_faults(ctx, "cancel", lambda: self._step.cancel(ctx))

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        return await self._live.with_faults(ctx, "resolve", lambda: self._step.resolve(ctx))


class _Retriable(ExternalStep[Anything]):
    """An external step behind a pivot."""

    def __init__(self, live: LiveParticipant) -> None:
        self._live, self._step = live, ScriptedRetriable(live.part_of)

    async def execute(self, ctx: ExternalContext, order: Anything) -> Executed:
        return await self._live.with_faults(ctx, "execute", lambda: self._step.execute(ctx, order))


class _Local(LocalStep[Anything]):
    """A local step; its process dies only with the whole participant, so it suffers no crash."""

    def __init__(self, live: LiveParticipant) -> None:
        self._live, self._step = live, ScriptedLocal(live.part_of)

    async def execute(self, ctx: LocalContext, order: Anything) -> ExecutedLocally:
        self._live.note_local(ctx, "execute")
        return await self._step.execute(ctx, order)

    async def compensate(self, ctx: LocalContext) -> Undone:
        self._live.note_local(ctx, "compensate")
        return await self._step.compensate(ctx)
