"""One drill: orders under load, a fault in the middle, and the verdict of all receivers."""

import json
import os
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sagabus_core.vocabulary import SagaStatus
from sagabus_testkit import LocalStack
from sagabus_testkit.orders import (
    DEFINITION,
    Order,
    Pace,
    count_dead_letters,
    judge,
    make_orders,
    run_orders,
    wait_until_quiet,
)
from sagabus_testkit.system import System

TARGET = Path("build") / "drills.json"
LOGS = Path("build") / f"drill-logs-{os.getpid()}"
PACE = Pace(chunk=4, every_s=1.0, within_s=150)
TURNED_BACK = (SagaStatus.COMPENSATED,)
"""A step that nobody could do before its time-out is cancelled: a fault may turn an order back."""
_SLOW = {"no-answer", "charge-late"}

Harm = Callable[[], Awaitable[None]]


@dataclass
class Book:
    """The results of this session's drills, in `target` after each."""

    tell: Callable[[str], None]
    target: Path = TARGET
    drills: list[dict[str, Any]] = field(default_factory=list)

    def enter(self, name: str, problems: list[str], figures: dict[str, Any]) -> None:
        self.drills.append({"drill": name, "ok": not problems, **figures, "problems": problems})
        self._write()
        self.tell(f"drill {name}: {'ok' if not problems else 'FAILED'} {_words(figures)}")

    def add(self, figures: dict[str, Any]) -> None:
        """Say more about the last drill."""
        self.drills[-1].update(figures)
        self._write()
        self.tell(f"drill {self.drills[-1]['drill']}: {_words(figures)}")

    def _write(self) -> None:
        self.target.parent.mkdir(exist_ok=True)
        self.target.write_text(json.dumps({"drills": self.drills}, indent=2) + "\n")


@dataclass(frozen=True)
class Load:
    """Orders, how many must have ended before the fault, and the endings that it excuses."""

    orders: Sequence[Order]
    pace: Pace = PACE
    harm_after: int = 3
    also: Collection[str] = TURNED_BACK


@dataclass
class Site:
    """A running system that may be hurt, and where its verdicts go."""

    stack: LocalStack
    system: System
    book: Book

    def publish(self) -> None:
        done = self.system.command("definitions", "publish", str(DEFINITION), "--activate")
        assert done.returncode == 0, done.stderr

    async def drill(self, name: str, harm: Harm, load: Load | None = None) -> None:
        """Start orders, do `harm` once the first have ended; everything must come right."""
        begun = time.monotonic()
        try:
            problems, figures = await self._run(harm, load or Load(mixed_orders(name, 80)))
        except Exception as error:
            self.book.enter(name, [f"the drill failed: {error!r}"], {})
            raise
        figures["seconds"] = round(time.monotonic() - begun, 1)
        self.book.enter(name, problems, figures)
        assert not problems, "\n".join(problems)

    async def _run(self, harm: Harm, load: Load) -> tuple[list[str], dict[str, Any]]:
        fault = _Fault(harm)
        letters = await count_dead_letters(self.system)
        finished = await run_orders(
            self.system, load.orders, load.pace, harm=(load.harm_after, fault.happen)
        )
        left = await wait_until_quiet(self.system)
        verdict = await judge(self.system, finished, load.also)
        letters = await count_dead_letters(self.system) - letters
        problems = [*verdict.problems, *(f"not at rest: {each}" for each in left), *fault.problems]
        problems += [f"{letters} dead letters"] if letters else []
        return problems, {**verdict.document(), "fault_s": round(fault.seconds, 1)}


class _Fault:
    """Does the harm once, and knows whether it was done."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self.seconds = 0.0
        self.problems = ["the fault never happened"]

    async def happen(self) -> None:
        begun = time.monotonic()
        try:
            await self._harm()
            self.problems = []
        except Exception as error:  # noqa: BLE001 - whatever it was belongs into the book
            self.problems = [f"the fault failed: {error!r}"]
        self.seconds = time.monotonic() - begun


def mixed_orders(name: str, count: int) -> list[Order]:
    """Orders of every scenario; those that wait for time-outs first: the fault hits them."""
    orders = make_orders(count, seed=11, prefix=name.upper())
    return sorted(orders, key=lambda order: order.scenario.name not in _SLOW)


def _words(figures: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in figures.items())
