"""What a fault did to a run of orders: counted at those who received the effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from sagabus_core import ids
from sagabus_core.vocabulary import SagaStatus
from sagabus_testkit.orders.load import STUCK, Finished
from sagabus_testkit.orders.reconcile import Books, Ending, read_books, reconcile, rows_of
from sagabus_testkit.orders.scenarios import Order
from sagabus_testkit.system import System

__all__ = ["Verdict", "duplicates_of", "judge", "losses_of"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the orders of a run ended, and everything that is wrong with that.

    `stuck`: sagas that go nowhere. `lost`: starts that nobody knows, endings that nobody was told,
    effects of completed orders that their receivers do not have. `duplicate_effects`: effects that
    a receiver has more than once. `unexpected`: other endings than the scenario allows.
    `disagreements`: sagas and books that contradict each other.
    """

    started: int
    completed: int
    compensated: int
    manual: int
    stuck: Sequence[str]
    lost: Sequence[str]
    duplicate_effects: Sequence[str]
    unexpected: Sequence[str]
    disagreements: Sequence[str]
    longest_ms: int

    @property
    def problems(self) -> list[str]:
        """Everything that must not be, as sentences; none means that the run is clean."""
        said = (self.stuck, self.lost, self.duplicate_effects, self.unexpected, self.disagreements)
        return [sentence for kind in said for sentence in kind]

    def document(self) -> dict[str, object]:
        """Return the figures, lists as their lengths."""
        return {
            name: value if isinstance(value, int) else len(value)
            for name, value in asdict(self).items()
        }


async def judge(
    system: System, finished: Sequence[Finished], also: Collection[str] = ()
) -> Verdict:
    """Ask the orchestrator and every receiver how these orders of a quiet system really ended.

    `also` are endings that the fault excuses: an outage may turn an order back, but never half.
    """
    books = await read_books(system)
    known = await _known(system, [f.order for f in finished])
    endings = [_ending(f, known) for f in finished]
    counts = Counter(ending.status for ending in endings)
    fates = [(f, known.get(_saga_id(f.order))) for f in finished]
    ended = [e for e in endings if e.status in {SagaStatus.COMPLETED, SagaStatus.COMPENSATED}]
    return Verdict(
        started=len(finished),
        completed=counts[SagaStatus.COMPLETED],
        compensated=counts[SagaStatus.COMPENSATED],
        manual=counts[SagaStatus.MANUAL_INTERVENTION],
        stuck=[f"{f.order.key}: stuck, it is {at}" for f, at in fates if at and _is_open(at)],
        lost=[s for f, at in fates for s in _lost(f, at)]
        + [s for ending in ended for s in losses_of(ending, books)],
        duplicate_effects=[s for f in finished for s in duplicates_of(f.order, books)],
        unexpected=[s for e in endings for s in _unexpected(e, also)],
        disagreements=[
            *await reconcile(system, ended),
            *(s for f, at in fates for s in _contradicted(f, at)),
        ],
        longest_ms=max((f.latency_ms for f in finished), default=0),
    )


def duplicates_of(order: Order, books: Books) -> Iterator[str]:
    """Name every effect that a receiver has more than once, undone ones included."""
    charges = books.charges.get(order.key, ())
    held = {
        "reserved": len(books.reservations.get(order.key, ())),
        "charged": sum(charge["status"] == "charged" for charge in charges),
        "shipped": sum(s["status"] == "SHIPPED" for s in books.shipments.get(order.key, ())),
        "refunded": len(books.refunds.get(order.key, ())),
    }
    for effect, times in held.items():
        for _ in range(times - 1):
            yield f"{order.key}: {effect} {times} times"


def losses_of(ending: Ending, books: Books) -> Iterator[str]:
    """Name every effect that a completed order claims and its receiver does not have."""
    if ending.status != SagaStatus.COMPLETED:
        return
    key = ending.order.key
    held = {
        "reservation": any(r["status"] == "SOLD" for r in books.reservations.get(key, ())),
        "charge": any(c["status"] == "charged" for c in books.charges.get(key, ())),
        "shipment": any(s["status"] == "SHIPPED" for s in books.shipments.get(key, ())),
    }
    yield from (f"{key}: completed without its {effect}" for effect, has in held.items() if not has)


async def _known(system: System, orders: Sequence[Order]) -> Mapping[str, str]:
    wanted = [_saga_id(order) for order in orders]
    rows = await rows_of(system, "orchestrator", "sagas", wanted)
    return {row["saga_id"]: row["status"] for row in rows}


def _saga_id(order: Order) -> str:
    start = order.command
    return ids.saga_id(start.tenant, start.workflow, start.business_key)


def _ending(finished: Finished, known: Mapping[str, str]) -> Ending:
    """Take the orchestrator's word where the client heard nothing."""
    if finished.status != STUCK:
        return finished.ending
    return Ending(finished.order, known.get(_saga_id(finished.order), STUCK))


def _is_open(status: str) -> bool:
    at = SagaStatus(status)
    return not at.is_terminal and at is not SagaStatus.MANUAL_INTERVENTION


def _goes_on(status: str) -> bool:
    return status == STUCK or (status in set(SagaStatus) and _is_open(status))


def _lost(finished: Finished, status: str | None) -> Iterator[str]:
    if status is None:
        yield f"{finished.order.key}: its start is lost"
    elif finished.status == STUCK and not _is_open(status):
        yield f"{finished.order.key}: {status}, and nobody was told"


def _contradicted(finished: Finished, status: str | None) -> Iterator[str]:
    """Name an ending that the client was told and the orchestrator does not know any more."""
    told = finished.status
    if status is not None and not _is_open(status) and told not in {STUCK, status}:
        yield f"{finished.order.key}: told {told}, but it is {status}"


def _unexpected(ending: Ending, also: Collection[str]) -> Iterator[str]:
    scenario = ending.order.scenario
    if ending.status not in {scenario.expected, *also} and not _goes_on(ending.status):
        yield f"{ending.order.key} ({scenario.name}): {ending.status}, not {scenario.expected}"
