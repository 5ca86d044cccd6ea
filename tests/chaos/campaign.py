"""A run: load and faults at once, then rest, then the books and journals of everybody."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from sagabus_testkit import LocalStack, eventually
from sagabus_testkit.faults import FaultyNetwork, hold
from sagabus_testkit.orders import Pace, make_orders, run_orders
from sagabus_testkit.system import SERVICES, ServiceKind, System

from .arsenal import Arsenal
from .findings import find
from .schedule import Fault, plan
from .verdict import ChaosVerdict
from .workflow import write_patient

__all__ = ["Campaign", "run_campaign"]

REPLICAS: Final = {"orchestrator": 2, "relay": 2, "payment": 2}
"""Where a frozen owner has a rival that takes over."""
_CHUNKS_PER_S: Final = 4
_WATCH_S: Final = 0.5
_READY_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Campaign:
    """What to do. `settle_s`: how long orders may take to end once the faults are over.

    `kinds` are the services; the tests of chaos itself put broken ones among them.
    """

    seed: int
    seconds: float
    logs: Path
    rate: float = 30.0
    settle_s: float = 300.0
    name: str = "chaos"
    kinds: Sequence[ServiceKind] = SERVICES
    faults: Sequence[Fault] | None = None

    @property
    def schedule(self) -> Sequence[Fault]:
        """The faults, those of the seed unless others are given."""
        return plan(self.seed, self.seconds) if self.faults is None else self.faults


@dataclass(slots=True)
class _Run:
    """A campaign at work."""

    campaign: Campaign
    arsenal: Arsenal
    tell: Callable[[str], None]
    begun: float = 0.0
    ended: int = 0
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    exits: Counter[str] = field(default_factory=Counter)
    whole_after_s: float = 0.0

    async def all_faults(self) -> None:
        """Inflict every fault of the schedule at its time, then make everything whole again."""
        self.begun = time.monotonic()
        watching = asyncio.create_task(self._start_again())
        try:
            async with asyncio.TaskGroup() as group:
                for fault in self.campaign.schedule:
                    await hold(max(0.0, self.begun + fault.at_s - time.monotonic()))
                    group.create_task(self._inflict(fault))
        finally:
            watching.cancel()
        over = time.monotonic()
        for name in self.arsenal.system.names:
            await self._revive(name)
        self.whole_after_s = time.monotonic() - over
        self.tell(f"{self._clock()}  the faults are over, everything runs")

    async def _revive(self, name: str) -> None:
        system = self.arsenal.system
        await asyncio.to_thread(system.spawn, name)
        try:
            ready = partial(asyncio.to_thread, system.is_ready, name)
            await eventually(ready, within=_READY_WITHIN_S, what=f"{name} is ready")
        except AssertionError:
            self.failed.append(f"{name} is not ready {_READY_WITHIN_S:g} s after the faults")

    async def _inflict(self, fault: Fault) -> None:
        try:
            said = await self.arsenal.inflict(fault)
        except Exception as error:  # noqa: BLE001 - whatever it was belongs into the verdict
            self.failed.append(f"the fault {fault.kind} of {fault.target} failed: {error!r}")
            said = f"FAILED {error!r}"
        else:
            self.done.append(fault.kind)
        self.tell(
            f"{self._clock()}  {fault.kind:<15} {fault.target:<14} "
            f"from {fault.at_s:6.1f} s  {self.ended:>6} orders ended  {said}"
        )

    async def _start_again(self) -> None:
        """Do what every platform does: start again what has ended."""
        system = self.arsenal.system
        while True:
            await hold(_WATCH_S)
            for name in system.names:
                if name not in self.arsenal.deliberately_down and not system.is_running(name):
                    self.exits[name] += 1
                    await asyncio.to_thread(system.spawn, name)

    def _clock(self) -> str:
        return f"{time.monotonic() - self.begun:6.1f} s"

    def count(self, ended: int) -> None:
        self.ended = ended


def run_campaign(
    campaign: Campaign, stack: LocalStack, tell: Callable[[str], None]
) -> ChaosVerdict:
    """Run it on a stack whose servers nobody else needs meanwhile, and return the verdict."""
    with (
        FaultyNetwork(stack) as network,
        System(
            network.servers,
            campaign.logs,
            name=campaign.name,
            replicas=REPLICAS,
            kinds=campaign.kinds,
        ) as system,
    ):
        system.start()
        workflow = write_patient(campaign.logs)
        published = system.command("definitions", "publish", str(workflow), "--activate")
        assert published.returncode == 0, published.stderr
        tell(f"{len(system.names)} processes run, {len(campaign.schedule)} faults to come")
        return asyncio.run(_campaign(_Run(campaign, Arsenal(stack, network, system), tell)))


async def _campaign(run: _Run) -> ChaosVerdict:
    campaign, system = run.campaign, run.arsenal.system
    # Faults block threads while they last, and several last at once.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
    orders = make_orders(int(campaign.rate * campaign.seconds), campaign.seed, "C")
    chunk = max(1, round(campaign.rate / _CHUNKS_PER_S))
    pace = Pace(chunk, chunk / campaign.rate, campaign.settle_s)
    begun_ms = int(time.time() * 1000)
    finished = await run_orders(
        system, orders, pace, on_outcome=run.count, harm=(1, run.all_faults)
    )
    run.tell(f"{run._clock()}  {run.ended} of {len(orders)} orders have ended")
    found = await find(system, finished, (begun_ms, int(campaign.seconds * 1000)))
    faults = Counter(run.done)
    return ChaosVerdict(
        campaign.seed,
        campaign.seconds,
        found,
        faults,
        failed=run.failed,
        exits=run.exits,
        whole_after_s=run.whole_after_s,
    )
