"""Which fault hits what, when and for how long: a pure function of seed and seconds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["DECK", "Card", "Fault", "plan"]

PARTICIPANTS: Final = ("inventory", "payment", "shipping")
SERVICES: Final = ("orchestrator", "relay", "timer", *PARTICIPANTS)
TOPICS: Final = ("start", "command", "result", "wakeup", "wakeup-request")
FIRST_S: Final = 2.0
GAP_S: Final = (1.0, 5.0)
"""Between the beginnings of two faults: most faults last longer, so several overlap."""


@dataclass(frozen=True, slots=True)
class Card:
    """A kind of fault and its victim; no two faults hit the same `place` at once.

    `back_s`: how long the victim then needs to be itself again.
    """

    kind: str
    target: str
    place: str
    shortest_s: float
    longest_s: float
    back_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A card that was dealt; `seed` is for what the fault itself leaves to chance."""

    at_s: float
    kind: str
    target: str
    lasts_s: float
    seed: int


def _cards() -> Iterator[Card]:
    for name in (*SERVICES, "cards"):
        yield Card("kill", name, name, 0.0, 4.0, back_s=4.0)
    for name in SERVICES:
        # Past the lease of a relay (3 s), of a worker (5 s), and the session of a member (10 s).
        yield Card("freeze", name, name, 11.0, 14.0, back_s=2.0)
    for flow in ("to_server", "to_client"):
        yield Card(f"stall-{flow.replace('_', '-')}", "kafka", "kafka line", 4.0, 12.0)
        yield Card(f"stall-{flow.replace('_', '-')}", "postgres", "postgres line", 3.0, 8.0)
    for server in ("kafka", "postgres"):
        yield Card("cut", server, f"{server} line", 1.0, 5.0)
        yield Card("slow", server, f"{server} line", 4.0, 8.0)
    yield Card("commit-lost", "postgres", "postgres line", 1.0, 4.0)
    yield Card("commit-done", "postgres", "postgres line", 1.0, 4.0)
    yield Card("crash", "postgres", "postgres", 0.5, 4.0, back_s=4.0)
    yield Card("restart", "postgres", "postgres", 0.5, 3.0, back_s=4.0)
    yield Card("crash", "kafka", "kafka", 0.5, 4.0, back_s=14.0)
    yield Card("restart", "kafka", "kafka", 0.5, 2.0, back_s=14.0)
    yield Card("freeze", "kafka", "kafka", 3.0, 10.0, back_s=2.0)
    for topic in TOPICS:
        yield Card("repeat", topic, topic, 0.0, 0.0)
        yield Card("shuffle", topic, topic, 0.0, 0.0)
    yield Card("overtake", "orchestrator", "relay", 1.0, 3.0)
    yield Card("overtake", "participants", "relay", 1.0, 3.0)
    yield Card("rebalance", "groups", "groups", 4.0, 8.0)


DECK: Final = tuple(_cards())
"""Every fault there is; each is dealt once before any comes again."""


def plan(seed: int, seconds: float, deck: Sequence[Card] = DECK) -> list[Fault]:
    """Return the faults of a run in order; each is over by `seconds`.

    The same arguments give the same faults, on any machine.
    """
    chance = random.Random(seed)
    hand: list[Card] = []
    busy: dict[str, float] = {}
    faults: list[Fault] = []
    at_s = FIRST_S
    while at_s < seconds:
        if not hand:
            hand = chance.sample(deck, len(deck))
        lengths = {card: round(chance.uniform(card.shortest_s, card.longest_s), 2) for card in hand}
        card = _first_that_fits(lengths, busy, at_s, seconds)
        if card is not None:
            hand.remove(card)
            busy[card.place] = at_s + lengths[card] + card.back_s
            faults.append(
                Fault(at_s, card.kind, card.target, lengths[card], chance.getrandbits(32))
            )
        at_s = round(at_s + chance.uniform(*GAP_S), 2)
    return faults


def _first_that_fits(
    lengths: Mapping[Card, float], busy: Mapping[str, float], at_s: float, seconds: float
) -> Card | None:
    fitting = (
        card
        for card, lasts_s in lengths.items()
        if busy.get(card.place, 0.0) <= at_s and at_s + lasts_s <= seconds
    )
    return next(fitting, None)
