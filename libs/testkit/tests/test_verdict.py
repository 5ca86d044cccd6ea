"""What the receivers hold of one order, and what is called a duplicate or a loss."""

from typing import Any

import pytest

from sagabus_core.vocabulary import SagaStatus
from sagabus_testkit.orders import Ending, Order, scenario
from sagabus_testkit.orders.reconcile import Books
from sagabus_testkit.orders.verdict import duplicates_of, losses_of

ORDER = Order("ORD-1", scenario("success"), "widget-1", 1, 100)
RIGHT: dict[str, list[dict[str, Any]]] = {
    "reservations": [{"status": "SOLD", "sku": "widget-1", "quantity": 1}],
    "shipments": [{"status": "SHIPPED"}],
    "charges": [{"status": "charged", "amount_cents": 100}],
    "refunds": [],
}


def books(**changes: list[dict[str, Any]]) -> Books:
    held: Any = {kind: {ORDER.key: rows} for kind, rows in {**RIGHT, **changes}.items()}
    return Books(**held, stock={})


def test_one_effect_each_is_right() -> None:
    assert list(duplicates_of(ORDER, books())) == []
    assert list(losses_of(Ending(ORDER, SagaStatus.COMPLETED), books())) == []


@pytest.mark.parametrize("kind", ["reservations", "shipments", "charges"])
def test_every_effect_is_missed_and_counted(kind: str) -> None:
    (missing,) = losses_of(Ending(ORDER, SagaStatus.COMPLETED), books(**{kind: []}))
    twice = list(duplicates_of(ORDER, books(**{kind: RIGHT[kind] * 3})))

    assert missing.startswith("ORD-1: completed without its ")
    assert len(twice) == 2


def test_an_undone_effect_counts_when_it_happened_twice() -> None:
    released = [{"status": "RELEASED", "sku": "widget-1", "quantity": 1}] * 2
    refunded = [{"amount_cents": 100}] * 2

    said = list(duplicates_of(ORDER, books(reservations=released, refunds=refunded)))

    assert said == ["ORD-1: reserved 2 times", "ORD-1: refunded 2 times"]


def test_what_was_refused_is_no_effect() -> None:
    refused = {
        "shipments": [{"status": "FORBIDDEN"}, {"status": "REFUSED"}],
        "charges": [{"status": "declined"}, {"status": "forbidden"}],
    }
    assert list(duplicates_of(ORDER, books(**refused))) == []
    assert list(losses_of(Ending(ORDER, SagaStatus.COMPENSATED), books(**refused))) == []
