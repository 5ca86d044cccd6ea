"""Services start with patience, restart their loops after outages, and stop in good order."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from sagabus_core.errors import InvalidValue
from sagabus_runtime import BackOffPolicy, ExitCode, Health, Loop, Pulse, new_registry, serve
from sagabus_runtime.lifecycle import ServeOptions

pytestmark = pytest.mark.enable_socket
QUICK = BackOffPolicy(first_ms=1, max_ms=2)
OPTIONS = ServeOptions(stop_grace_ms=5_000, start_back_off=QUICK)


@dataclass
class Probe:
    """A service that notes what happens to it."""

    loops: Sequence[Loop] = ()
    start_errors: list[Exception] = field(default_factory=list)
    health: Health = field(default_factory=lambda: Health(new_registry()))
    events: list[str] = field(default_factory=list)

    async def start(self) -> None:
        self.events.append("start")
        if self.start_errors:
            raise self.start_errors.pop(0)

    async def stop(self) -> None:
        self.events.append("stop")


async def run_until_stopped(pulse: Pulse) -> None:
    while not pulse.stopping:
        pulse.beat()
        await pulse.pause(10_000)


async def stopped(probe: Probe, options: ServeOptions = OPTIONS) -> ExitCode:
    async with asyncio.timeout(10):
        return await serve(probe, options)


async def test_a_loop_finishes_its_round_when_asked_to_stop() -> None:
    probe = Probe()

    async def loop(pulse: Pulse) -> None:
        assert await probe.health.failing() == {}
        probe.health.stop.set()
        await run_until_stopped(pulse)
        probe.events.append("finished")

    probe.loops = [Loop("work", loop)]
    assert await stopped(probe) is ExitCode.OK
    assert probe.events == ["start", "finished", "stop"]


async def test_starting_is_tried_again_after_an_outage_but_not_after_a_bug() -> None:
    probe = Probe(start_errors=[ConnectionRefusedError("db"), TimeoutError()])

    async def loop(pulse: Pulse) -> None:
        probe.health.stop.set()

    probe.loops = [Loop("work", loop)]
    assert await stopped(probe) is ExitCode.OK
    assert probe.events == ["start", "start", "start", "stop"]
    assert await stopped(Probe(start_errors=[KeyError("bug")])) is ExitCode.CRASHED


async def test_an_outage_restarts_the_loop_and_shows_as_not_ready() -> None:
    probe, seen = Probe(), []

    async def loop(pulse: Pulse) -> None:
        seen.append(pulse.trouble)
        if len(seen) < 4:
            raise ConnectionResetError("broker")
        pulse.beat()
        probe.health.stop.set()

    probe.loops = [Loop("work", loop, back_off=QUICK)]
    assert await stopped(probe) is ExitCode.OK
    assert seen == [None] + ["ConnectionResetError: broker"] * 3
    assert b'sagabus_loop_restarts_total{loop="work"} 3.0' in probe.health.exposition()


@pytest.mark.parametrize("error", [KeyError("bug"), InvalidValue("c", "d")])
async def test_a_bug_ends_the_process_and_lets_the_other_loops_finish(error: Exception) -> None:
    probe = Probe()

    async def buggy(pulse: Pulse) -> None:
        raise error

    async def other(pulse: Pulse) -> None:
        await run_until_stopped(pulse)
        probe.events.append("finished")

    probe.loops = [Loop("buggy", buggy), Loop("other", other)]
    assert await stopped(probe) is ExitCode.CRASHED
    assert probe.events == ["start", "finished", "stop"]


async def test_a_loop_that_just_returns_is_a_bug() -> None:
    async def returns(pulse: Pulse) -> None:
        pulse.beat()

    assert await stopped(Probe([Loop("work", returns)])) is ExitCode.CRASHED


async def test_trap_14_a_silent_loop_is_cancelled_and_run_again() -> None:
    probe = Probe()

    async def loop(pulse: Pulse) -> None:
        probe.events.append("run")
        if probe.events.count("run") == 1:
            await asyncio.Event().wait()
        probe.health.stop.set()

    probe.loops = [Loop("work", loop, deadline_ms=20, back_off=QUICK)]
    assert await stopped(probe) is ExitCode.OK
    assert probe.events == ["start", "run", "run", "stop"]


async def test_work_that_does_not_finish_is_cancelled_at_the_deadline() -> None:
    probe = Probe()

    async def stubborn(pulse: Pulse) -> None:
        probe.health.stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            probe.events.append("cancelled")

    probe.loops = [Loop("work", stubborn)]
    options = ServeOptions(stop_grace_ms=10)
    assert await stopped(probe, options) is ExitCode.STOP_FORCED
    assert probe.events == ["start", "cancelled", "stop"]


PROGRAM = """
import sys
from sagabus_runtime import Health, Loop, PostgresSettings, ServiceSettings
from sagabus_runtime import new_registry, run_service

class Quiet:
    def __init__(self): self.health = Health(new_registry()); self.loops = [Loop("work", self.work)]
    async def work(self, pulse):
        while not pulse.stopping: pulse.beat(); await pulse.pause(10_000)
    async def start(self): pass
    async def stop(self): print('released', flush=True)

which = PostgresSettings if sys.argv[1] == "needs-postgres" else ServiceSettings
sys.exit(run_service("quiet", lambda settings: Quiet(), which))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_gracefully(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "plain"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if '"service.ready"' in line:
                break
        os.kill(process.pid, number)
        rest = process.stdout.read()
        assert process.wait(10) == 0
    assert "released" in rest
    assert '"service.stopped"' in rest


def test_wrong_settings_end_the_process_before_anything_is_built() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "needs-postgres"],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.SETTINGS
    assert "SAGABUS_POSTGRES is not set" in done.stderr
    assert "Traceback" not in done.stderr
