"""The story of the demo: stack, services, orders, two murders, convergence, the books."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sagabus_cli.demo.result import Result
from sagabus_cli.demo.stage import Stage
from sagabus_cli.errors import FailedOutcome
from sagabus_testkit import LocalStack
from sagabus_testkit.orders import (
    DEFINITION,
    Finished,
    Order,
    Pace,
    make_orders,
    reconcile,
    run_orders,
)
from sagabus_testkit.system import Servers, System

__all__ = ["VICTIMS", "Plot", "play"]

VICTIMS: Final = ("shipping", "orchestrator")
_KILL_AFTER: Final = 0.2
"""The share of orders that have ended when the victims are killed."""


@dataclass(frozen=True, slots=True)
class Plot:
    """How many orders, which mix, and where the results go."""

    orders: int
    seed: int
    into: Path

    @property
    def logs(self) -> Path:
        """The folder of the services' logs."""
        return self.into / "demo-logs"


def play(plot: Plot, stage: Stage) -> Result:
    """Play the demo from an empty stack to the books, stop everything, and write demo.json."""
    stage.title(f"sagabus demo: {plot.orders} orders through separate services")
    shutil.rmtree(plot.logs, ignore_errors=True)
    plot.logs.mkdir(parents=True)
    with LocalStack(f"demo-{os.getpid()}") as stack:
        with stage.step("Kafka and Postgres are up") as note:
            stack.start()
            note(f"Kafka {stack.kafka.bootstrap}, Postgres port {stack.postgres.port}")
        with System(Servers.of(stack), plot.logs) as system:
            result = _run(plot, stage, system)
            _report(stage, system, result)
    plot.into.mkdir(parents=True, exist_ok=True)
    target = plot.into / "demo.json"
    target.write_text(json.dumps(result.document(), indent=2) + "\n")
    stage.say("")
    stage.verdict(
        good=result.is_right,
        text=f"{'all is right' if result.is_right else 'something is wrong'}; everything is "
        f"stopped, {stage.elapsed_s:.0f} s in all; {target}, logs in {plot.logs}",
    )
    return result


def _run(plot: Plot, stage: Stage, system: System) -> Result:
    with stage.step(f"{len(system.names)} services are ready") as note:
        system.start()
        note(", ".join(system.names))
    with stage.step("the order workflow is active") as note:
        published = system.command("definitions", "publish", str(DEFINITION), "--activate")
        if published.returncode != 0:
            raise FailedOutcome("demo_failed", f"publishing failed: {published.stderr.strip()}")
        note(published.stdout.strip())
    orders = make_orders(plot.orders, plot.seed)
    with stage.step("every order has ended"):
        finished = asyncio.run(_order(orders, stage, system))
    with stage.step("stock, shipments, card ledger read"):
        problems = asyncio.run(reconcile(system, [f.ending for f in finished]))
    return Result(finished, problems, VICTIMS, stage.elapsed_s)


async def _order(orders: Sequence[Order], stage: Stage, system: System) -> list[Finished]:
    ended = 0

    async def murder() -> None:
        pids = {name: system.pid(name) for name in VICTIMS}
        for name in VICTIMS:
            await asyncio.to_thread(system.kill, name)
        victims = " and ".join(f"{name} (pid {pid})" for name, pid in pids.items())
        stage.say(f"✗ kill -9 {victims}: {len(orders) - ended} orders to go", "red")
        with stage.step("both are back"):
            for name in VICTIMS:
                system.spawn(name)
            for name in VICTIMS:
                await asyncio.to_thread(system.restart, name)

    with stage.progress(len(orders)) as told:

        def on_outcome(count: int) -> None:
            nonlocal ended
            ended = count
            told(count)

        return await run_orders(
            system,
            orders,
            Pace(),
            on_outcome=on_outcome,
            harm=(int(len(orders) * _KILL_AFTER), murder),
        )


def _report(stage: Stage, system: System, result: Result) -> None:
    _tell_stories(stage, system, result.examples())
    stage.title("outcomes by kind")
    columns = ["scenario", "what happens", "ended", "as expected", "p50", "longest"]
    stage.table(columns, result.rows(), numbers=3)
    counts = ", ".join(f"{count} {status}" for status, count in sorted(result.counts.items()))
    expected = sum(f.is_as_expected for f in result.finished)
    stage.verdict(
        good=expected == len(result.finished),
        text=f"{expected} of {len(result.finished)} orders ended as they must: {counts}",
    )
    agree = not result.disagreements
    stage.verdict(
        good=agree,
        text="stock, shipments and card ledger agree with every order: nothing is left wrong"
        if agree
        else f"{len(result.disagreements)} disagreements between sagas and books:",
    )
    for sentence in result.disagreements[:20]:
        stage.say(f"    {sentence}", "red")


def _tell_stories(stage: Stage, system: System, examples: Sequence[Finished]) -> None:
    shown = system.command("show", "--", *(example.order.key for example in examples))
    if shown.returncode != 0:
        raise FailedOutcome("demo_failed", f"`sagabus show` failed: {shown.stderr.strip()}")
    for example, page in zip(examples, shown.stdout.split("\n\n"), strict=True):
        scenario = example.order.scenario
        stage.title(f"{scenario.name}: {scenario.story}")
        stage.story(page)
