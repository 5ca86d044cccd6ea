"""How the processor misbehaves, by card number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Mood", "mood_of"]

_SLOW: Final = re.compile(r"slow-([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Mood:
    """What happens to the first requests that name a card.

    `loses_request`: the connection breaks before anything is decided. `loses_answer`: it breaks
    after the decision is durable. `delay_ms`: the answer comes late. The last two concern the
    first request of a key only: a repeat is answered at once.
    """

    declines: bool = False
    loses_request: bool = False
    loses_answer: bool = False
    loses_refund_answer: bool = False
    delay_ms: int = 0


def mood_of(card: str) -> Mood:
    """Return the mood of a card; any unlisted number is an ordinary good card."""
    slow = _SLOW.fullmatch(card)
    return Mood(
        declines=card == "declined",
        loses_request=card == "lost-request",
        loses_answer=card == "lost-answer",
        loses_refund_answer=card == "lost-refund-answer",
        delay_ms=int(slow[1]) if slow else 0,
    )
