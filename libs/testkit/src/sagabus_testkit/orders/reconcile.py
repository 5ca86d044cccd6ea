"""Do stock, money and shipments agree with how the sagas ended? Asks the books themselves."""

from __future__ import annotations

import asyncio
import itertools
import json
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from sagabus_core.vocabulary import SagaStatus
from sagabus_store import Database, DatabaseOptions, Queries
from sagabus_testkit.orders.scenarios import Order
from sagabus_testkit.system import System

__all__ = ["SQL", "Books", "Ending", "read_books", "reconcile", "rows_of"]

SQL: Final = Queries("sagabus_testkit", "orders/sql/reconcile.sql")
_ON_EACH_SHELF: Final = 1_000_000
_PATIENCE_S: Final = 10


@dataclass(frozen=True, slots=True)
class Ending:
    """How the saga of an order ended."""

    order: Order
    status: str


@dataclass(frozen=True, slots=True)
class Books:
    """Everything that the participants and the card processor know, by order."""

    reservations: Mapping[str, Sequence[asyncpg.Record]]
    shipments: Mapping[str, Sequence[asyncpg.Record]]
    charges: Mapping[str, Sequence[Mapping[str, Any]]]
    refunds: Mapping[str, Sequence[Mapping[str, Any]]]
    stock: Mapping[str, int]


async def reconcile(system: System, endings: Iterable[Ending]) -> list[str]:
    """Return every disagreement as a sentence; none means that nothing is left wrong.

    `endings` are all orders of this system that were ever started: the stock is counted too.
    """
    books = await read_books(system)
    known = list(endings)
    return [problem for ending in known for problem in _check(ending, books)] + list(
        _check_stock(books)
    )


async def read_books(system: System) -> Books:
    """Ask every receiver of effects what it holds."""
    reservations, stock, shipments, ledger = await asyncio.gather(
        rows_of(system, "inventory", "reservations"),
        rows_of(system, "inventory", "stock"),
        rows_of(system, "shipping", "shipments"),
        asyncio.to_thread(_ledger, system.cards_url),
    )
    return Books(
        _by_order(reservations, "order_key"),
        _by_order(shipments, "order_key"),
        _by_order(ledger["charges"], "reference"),
        _by_order(ledger["refunds"], "reference"),
        {row["sku"]: row["available"] for row in stock},
    )


def _check(ending: Ending, books: Books) -> Iterator[str]:
    match ending.status:
        case SagaStatus.COMPLETED:
            yield from _check_completed(ending.order, books)
        case SagaStatus.COMPENSATED:
            yield from _check_compensated(ending.order, books)
        case other:
            yield f"{ending.order.key}: did not end, it is {other}"


def _check_completed(order: Order, books: Books) -> Iterator[str]:
    sold = [
        (row["sku"], row["quantity"])
        for row in books.reservations.get(order.key, ())
        if row["status"] != "RELEASED"
    ]
    if sold != [(order.sku, order.quantity)]:
        yield f"{order.key}: completed, but the stock sold is {sold}"
    states = Counter(row["status"] for row in books.reservations.get(order.key, ()))
    if states["RESERVED"]:
        yield f"{order.key}: completed, but its reservation was never confirmed"
    shipped = Counter(row["status"] for row in books.shipments.get(order.key, ()))
    if shipped != {"SHIPPED": 1}:
        yield f"{order.key}: completed, but the carrier has {dict(shipped)}"
    charged = [c["amount_cents"] for c in _charged(order, books)]
    if charged != [order.amount_cents] or books.refunds.get(order.key):
        yield f"{order.key}: completed, but charged {charged}, refunded {_refunded(order, books)}"


def _check_compensated(order: Order, books: Books) -> Iterator[str]:
    states = Counter(row["status"] for row in books.reservations.get(order.key, ()))
    if set(states) - {"RELEASED"}:
        yield f"{order.key}: compensated, but its stock is {dict(states)}"
    shipped = Counter(row["status"] for row in books.shipments.get(order.key, ()))
    if set(shipped) & {"SHIPPED", "PENDING"}:
        yield f"{order.key}: compensated, but the carrier has {dict(shipped)}"
    charged = [c["amount_cents"] for c in _charged(order, books)]
    if charged != _refunded(order, books):
        yield f"{order.key}: compensated, but charged {charged}, refunded {_refunded(order, books)}"


def _check_stock(books: Books) -> Iterator[str]:
    taken: Counter[str] = Counter()
    for row in itertools.chain.from_iterable(books.reservations.values()):
        if row["status"] != "RELEASED":
            taken[row["sku"]] += row["quantity"]
    for sku, available in books.stock.items():
        if available != _ON_EACH_SHELF - taken[sku]:
            yield f"{sku}: {available} on the shelf and {taken[sku]} taken do not add up"


def _charged(order: Order, books: Books) -> list[Mapping[str, Any]]:
    return [c for c in books.charges.get(order.key, ()) if c["status"] == "charged"]


def _refunded(order: Order, books: Books) -> list[int]:
    return [refund["amount_cents"] for refund in books.refunds.get(order.key, ())]


def _by_order(rows: Iterable[Any], key: str) -> Mapping[str, Sequence[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row[key]].append(row)
    return found


async def rows_of(
    system: System, service: str, query: str, *arguments: object
) -> list[asyncpg.Record]:
    """Return what a named query of this folder finds in a service's database."""
    options = DatabaseOptions(application_name="sagabus-reconcile", pool_size=1)
    database = Database(system.database(service), options)
    try:
        await database.open()
        async with database.connection() as conn:
            return list(await conn.fetch(SQL[query], *arguments))
    finally:
        await database.close()


def _ledger(url: str) -> Mapping[str, Any]:
    with urllib.request.urlopen(f"{url}/ledger", timeout=_PATIENCE_S) as answer:  # noqa: S310 - our own
        ledger: Mapping[str, Any] = json.load(answer)
    return ledger
