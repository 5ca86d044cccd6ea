"""After a run: what receivers, effect journals and saga journals hold."""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sagabus_core import ids
from sagabus_core.vocabulary import SagaStatus
from sagabus_orchestrator.queries import SQL
from sagabus_store import Database, DatabaseOptions
from sagabus_testkit.orders import (
    Finished,
    Order,
    Verdict,
    count_dead_letters,
    judge,
    wait_until_quiet,
)
from sagabus_testkit.system import System

from .audit import SagaRecord, StoredFact, audit, snapshot_of
from .receivers import missing_effects, read_effects, stray_effects
from .workflow import patient_definition

__all__ = ["Findings", "by_second", "find", "longest_gap_ms"]

TURNED_BACK: Final = (SagaStatus.COMPENSATED,)
"""A step that nobody could do before its time-out is cancelled: a fault may turn an order back."""
_EXPLAINED: Final = 5


@dataclass(slots=True)
class Findings:
    """`orders` were counted at the receivers of their effects; the rest is what else was found.

    `missing`, `strays`: differences to the effect journals. `violations`: what the saga journals
    hold that must not be. `left`: work that never came to rest. `why`: what `sagabus why` and
    `sagabus show` say of the first sagas that are stuck or ended otherwise than they may.
    `longest_stall_s`: no saga at all moved, although new ones came in; `longest_wait_s`: one saga
    did not move.
    """

    orders: Verdict
    left: Sequence[str] = ()
    dead_letters: int = 0
    why: Sequence[str] = ()
    missing: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    longest_stall_s: float = 0.0
    longest_wait_s: float = 0.0
    started_per_s: float = 0.0
    ended_per_s: float = 0.0
    p50_ms: int = 0
    decisions_by_second: Sequence[int] = ()


async def find(system: System, finished: Sequence[Finished], load: tuple[int, int]) -> Findings:
    """Wait until nothing is left to do, then read all books and journals.

    `load`: when the orders began to come, epoch milliseconds, and for how many milliseconds.
    """
    left = await wait_until_quiet(system)
    found = Findings(await judge(system, finished, TURNED_BACK), left)
    found.dead_letters = await count_dead_letters(system)
    troubled = [*found.orders.stuck, *found.orders.unexpected]
    found.why = await asyncio.to_thread(_explain, system, troubled)
    instants = await _read_journals(system, [f.order for f in finished], found)
    begin_ms, lasts_ms = load
    found.decisions_by_second = by_second(instants, begin_ms)
    found.longest_stall_s = longest_gap_ms(instants, begin_ms, begin_ms + lasts_ms) / 1000
    _measure(finished, found, begin_ms + lasts_ms)
    return found


async def _read_journals(system: System, orders: Sequence[Order], found: Findings) -> list[int]:
    """Audit every saga; return when anything was decided, epoch milliseconds."""
    definition = patient_definition()
    effects = await read_effects(system)
    instants: list[int] = []
    async for record in _records(system, orders):
        snapshot = snapshot_of(record)
        found.missing += missing_effects(snapshot, definition, effects)
        found.strays += stray_effects(snapshot, definition, effects)
        found.violations += audit(record, definition)
        own = [next(same).at_ms for _, same in itertools.groupby(record.facts, _revision)]
        waits = [(later - earlier) / 1000 for earlier, later in itertools.pairwise(own)]
        found.longest_wait_s = max([found.longest_wait_s, *waits])
        instants += own
    return instants


async def _records(system: System, orders: Iterable[Order]) -> AsyncIterator[SagaRecord]:
    """Yield the sagas of these orders; one that was never started is missing (`judge` says so)."""
    options = DatabaseOptions(application_name="sagabus-chaos", pool_size=1)
    database = Database(system.database("orchestrator"), options)
    await database.open()
    try:
        async with database.connection() as conn:
            for order in orders:
                start = order.command
                saga_id = ids.saga_id(start.tenant, start.workflow, start.business_key)
                row = await conn.fetchrow(SQL["find_saga"], saga_id)
                if row is None:
                    continue
                facts = await conn.fetch(SQL["read_journal"], saga_id)
                yield SagaRecord(
                    start.tenant,
                    start.business_key,
                    start.payload,
                    row["snapshot"],
                    row["journal_head"],
                    [StoredFact(f["revision"], f["fact"], f["head"]) for f in facts],
                )
    finally:
        await database.close()


def _revision(fact: StoredFact) -> int:
    return fact.revision


def _explain(system: System, troubled: Sequence[str]) -> list[str]:
    keys = [sentence.partition(":")[0].split()[0] for sentence in troubled[:_EXPLAINED]]
    return [system.command(verb, key).stdout for key in keys for verb in ("why", "show")]


def _measure(finished: Sequence[Finished], found: Findings, until_ms: int) -> None:
    """Say how fast orders came, and how many ended while the faults went on."""
    starts = [each.started_at_ms for each in finished]
    lasted_s = max(1.0, (max(starts) - min(starts)) / 1000)
    ended = [f for f in finished if f.started_at_ms + f.latency_ms <= until_ms]
    found.started_per_s = len(starts) / lasted_s
    found.ended_per_s = len(ended) / max(1.0, (until_ms - min(starts)) / 1000)
    found.p50_ms = int(statistics.median(each.latency_ms for each in finished))


def by_second(instants_ms: Iterable[int], begin_ms: int) -> list[int]:
    """Return how many of them fall into each second from the beginning."""
    counts = Counter((at - begin_ms) // 1000 for at in instants_ms)
    return [counts[second] for second in range(max(counts, default=-1) + 1)]


def longest_gap_ms(instants_ms: Iterable[int], begin_ms: int, end_ms: int) -> int:
    """Return the longest time between two neighbours of `instants_ms`, or the ends, in between."""
    inside = sorted(at for at in instants_ms if begin_ms < at < end_ms)
    pairs = itertools.pairwise([begin_ms, *inside, end_ms])
    return max(later - earlier for earlier, later in pairs)
