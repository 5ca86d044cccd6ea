"""Every way in which an order can go, chosen by what is in its payload."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sagabus_client import StartCommand
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import json_payload

__all__ = ["DEFINITION", "SCENARIOS", "Order", "Scenario", "make_orders", "scenario"]

DEFINITION: Final = Path(__file__).with_name("order.v1.json")
"""The order workflow, to be published."""
_SHELVES: Final = 10
_GOOD_CARD, _GOOD_ADDRESS, _GOOD_SKU = "visa-1", "1 Main Street", "widget"


@dataclass(frozen=True, slots=True)
class Scenario:
    """What an order carries, and how its saga has to end; `share` is its weight in a mix."""

    name: str
    story: str
    expected: SagaStatus
    share: int
    sku: str = _GOOD_SKU
    card: str = _GOOD_CARD
    address: str = _GOOD_ADDRESS


_DONE, _BACK = SagaStatus.COMPLETED, SagaStatus.COMPENSATED

SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario("success", "all goes well", _DONE, 45),
    Scenario("sold-out", "stock is refused: nothing to undo", _BACK, 5, sku="sold-out"),
    Scenario("unknown-sku", "no such article: nothing to undo", _BACK, 4, sku="gadget"),
    Scenario("no-answer", "stock never answers: cancel barrier", _BACK, 6, sku="being-counted"),
    Scenario("card-declined", "card declined: stock put back", _BACK, 7, card="declined"),
    Scenario("charge-unknown", "charged, answer lost: resolved", _DONE, 6, card="lost-answer"),
    Scenario("charge-lost", "request lost: resolved, key fenced", _BACK, 6, card="lost-request"),
    Scenario("charge-late", "answer after the time-out: resolved", _DONE, 5, card="slow-22000"),
    Scenario("no-delivery", "address refused: refund, stock back", _BACK, 5, address="nowhere"),
    Scenario(
        "refund-unknown",
        "refund's answer lost: undo resolved",
        _BACK,
        4,
        card="lost-refund-answer",
        address="nowhere",
    ),
    Scenario("looked-up", "carrier calls back: shipped", _DONE, 4, address="look-up:2 Side Street"),
    Scenario("look-up-no", "carrier calls back: refused", _BACK, 3, address="look-up:nowhere"),
)


@dataclass(frozen=True, slots=True)
class Order:
    """One order: its saga's business key is `key`."""

    key: str
    scenario: Scenario
    sku: str
    quantity: int
    amount_cents: int

    @property
    def payload(self) -> Mapping[str, str | int]:
        """What the start carries."""
        return {
            "order": self.key,
            "sku": self.sku,
            "quantity": self.quantity,
            "card": self.scenario.card,
            "amount_cents": self.amount_cents,
            "address": self.scenario.address,
        }

    @property
    def command(self) -> StartCommand:
        """The start of its saga."""
        payload = json_payload(dict(self.payload), "order.v1")
        return StartCommand("default", "order", self.key, payload)


def scenario(name: str) -> Scenario:
    """Return a scenario by its name."""
    return next(each for each in SCENARIOS if each.name == name)


def make_orders(count: int, seed: int = 1, prefix: str = "ORD") -> list[Order]:
    """Return `count` orders that mix the scenarios by their shares, each at least once.

    The same arguments give the same orders. From the number of scenarios upwards.
    """
    chance = random.Random(seed)  # noqa: S311 - a mix, no secret
    weights = [each.share for each in SCENARIOS]
    mixed = [*SCENARIOS, *chance.choices(SCENARIOS, weights, k=max(0, count - len(SCENARIOS)))]
    chance.shuffle(mixed)
    return [_order(f"{prefix}-{n:04d}", n, each) for n, each in enumerate(mixed[:count], 1)]


def _order(key: str, number: int, each: Scenario) -> Order:
    sku = f"widget-{number % _SHELVES}" if each.sku == _GOOD_SKU else each.sku
    return Order(key, each, sku, 1 + number % 3, 1_000 + number)
