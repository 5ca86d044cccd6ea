"""How a service starts, runs its loops under supervision, and stops.

run_service: settings -> logs -> failpoints -> build -> serve -> exit code
serve:       health server -> start (retried) -> loops, ready -> stop asked or a loop crashed
             -> loops finish or are cancelled -> stop -> health server closed
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol, TypeVar

import uvloop

from sagabus_runtime import failpoints, logs
from sagabus_runtime.backoff import BackOff, BackOffPolicy
from sagabus_runtime.errors import SettingsError, is_retryable
from sagabus_runtime.health import Health, HealthServer
from sagabus_runtime.logs import get_logger
from sagabus_runtime.names import (
    EVENT_CRASHED,
    EVENT_FAILPOINTS_ARMED,
    EVENT_HEALTH_LISTENING,
    EVENT_READY,
    EVENT_START_FAILED,
    EVENT_STARTING,
    EVENT_STOP_FAILED,
    EVENT_STOP_FORCED,
    EVENT_STOPPED,
    EVENT_STOPPING,
    FIELD_DELAY_MS,
    FIELD_REASON,
)
from sagabus_runtime.settings import ServiceSettings, load
from sagabus_runtime.supervision import Loop, Supervisor

__all__ = ["ExitCode", "Loop", "ServeOptions", "Service", "run_service", "serve"]


class ExitCode(IntEnum):
    """What the process tells its supervisor (numbers of sysexits.h)."""

    OK = 0
    """Asked to stop, and all work in hand was finished."""
    CRASHED = 70
    """A programming error; start me again and tell somebody."""
    STOP_FORCED = 75
    """Asked to stop; work in hand was cancelled at the deadline. Nothing is lost."""
    SETTINGS = 78
    """The environment is wrong; starting me again does not help."""


class Service(Protocol):
    """What `build(settings)` returns: every object made, nothing connected yet."""

    @property
    def health(self) -> Health:
        """Checks, pulses and metrics of this service."""

    @property
    def loops(self) -> Sequence[Loop]:
        """The activities to run once started."""

    async def start(self) -> None:
        """Connect; called again after a retryable error."""

    async def stop(self) -> None:
        """Release everything, also after a start that failed half-way."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where health answers and how long stopping may take."""

    health_host: str = "127.0.0.1"
    health_port: int = 0
    stop_grace_ms: int = 20_000
    start_back_off: BackOffPolicy = field(default_factory=lambda: BackOffPolicy(max_ms=5_000))


S = TypeVar("S", bound=ServiceSettings)


def run_service(name: str, build: Callable[[S], Service], settings_class: type[S]) -> int:
    """Run the service `name` until SIGTERM or SIGINT and return the exit code of the process.

    A second signal ends the process at once: everything durable is in Postgres and Kafka.
    """
    try:
        settings = load(settings_class)
        armed = failpoints.arm_from_env()
    except SettingsError as error:
        sys.stderr.write(f"{name} cannot start. {error.code}: {error.detail}\n")
        return ExitCode.SETTINGS
    logs.configure(name, settings.log_level, settings.log_format)
    if armed:
        get_logger().warning(EVENT_FAILPOINTS_ARMED, spec=armed)
    _calm_the_collector()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(build, settings))


def _calm_the_collector() -> None:
    """Let the garbage collector pass over what was imported, and look less often for the rest.

    A batch makes tens of thousands of objects, hardly one in a cycle; looking after every 700th
    took a tenth of the orchestrator's time. Reference counts free nearly everything at once.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


async def _main(build: Callable[[S], Service], settings: S) -> ExitCode:
    try:
        service = build(settings)
    except SettingsError as error:
        get_logger().error(EVENT_START_FAILED, **{FIELD_REASON: str(error)})
        return ExitCode.SETTINGS
    _stop_on_signals(service.health.stop)
    return await serve(
        service,
        ServeOptions(settings.health_host, settings.health_port, settings.stop_grace_ms),
    )


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def ask(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)


async def serve(service: Service, options: ServeOptions) -> ExitCode:
    """Run `service` until its `health.stop` is set or a loop crashes, and stop it.

    Returns the exit code; raises OSError only if the health port is taken.
    """
    log = get_logger()
    server = HealthServer(service.health, options.health_host, options.health_port)
    await server.start()
    log.info(EVENT_HEALTH_LISTENING, host=options.health_host, port=server.port)
    try:
        code = await _start_and_run(service, options)
    except Exception as error:
        # The one broad except of a service: whatever no supervisor could mend ends the process.
        log.exception(EVENT_CRASHED, **{FIELD_REASON: repr(error)})
        code = ExitCode.SETTINGS if isinstance(error, SettingsError) else ExitCode.CRASHED
    finally:
        service.health.unready = "stopping"
        await _release(service, options)
        await server.close()
    log.info(EVENT_STOPPED, exit_code=int(code))
    return code


async def _start_and_run(service: Service, options: ServeOptions) -> ExitCode:
    health = service.health
    if not await _start(service, BackOff(options.start_back_off)):
        return ExitCode.OK
    supervisor = Supervisor(health.registry)
    tasks = [
        asyncio.create_task(
            supervisor.supervise(loop, health.pulse(loop.name, loop.deadline_ms)), name=loop.name
        )
        for loop in service.loops
    ]
    stop = asyncio.create_task(health.stop.wait(), name="stop")
    health.unready = None
    get_logger().info(EVENT_READY)
    try:
        await asyncio.wait({stop, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        health.unready = "stopping"
        health.stop.set()
        get_logger().info(EVENT_STOPPING)
        return await _finish(tasks, options.stop_grace_ms)
    finally:
        await _cancel([stop, *tasks])


async def _start(service: Service, back_off: BackOff) -> bool:
    """Start with retries; return False if asked to stop before it worked."""
    log = get_logger()
    log.info(EVENT_STARTING)
    stop = service.health.stop
    while not stop.is_set():
        try:
            await service.start()
        except Exception as error:
            if not is_retryable(error):
                raise
            delay_ms = back_off.next_ms()
            reason = f"{type(error).__name__}: {error}"
            service.health.unready = f"starting: {reason}"
            log.warning(EVENT_START_FAILED, **{FIELD_DELAY_MS: delay_ms, FIELD_REASON: reason})
            await _wait_for(stop, delay_ms)
        else:
            return True
    return False


async def _finish(tasks: Sequence[asyncio.Task[None]], grace_ms: int) -> ExitCode:
    """Wait for the loops; raise the error of one that crashed."""
    if not tasks:
        return ExitCode.OK
    done, late = await asyncio.wait(tasks, timeout=grace_ms / 1000)
    for task in done:
        task.result()
    if late:
        get_logger().warning(EVENT_STOP_FORCED, loops=sorted(task.get_name() for task in late))
        return ExitCode.STOP_FORCED
    return ExitCode.OK


async def _release(service: Service, options: ServeOptions) -> None:
    try:
        async with asyncio.timeout(max(options.stop_grace_ms / 1000, 1)):
            await service.stop()
    except Exception as error:  # noqa: BLE001  (the process ends either way; say what was left)
        get_logger().warning(EVENT_STOP_FAILED, **{FIELD_REASON: repr(error)})


async def _cancel(tasks: Sequence[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for(event: asyncio.Event, ms: int) -> None:
    try:
        async with asyncio.timeout(ms / 1000):
            await event.wait()
    except TimeoutError:
        return
