"""Fair sharing of slots among the replicas that are alive."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Share", "fair_share"]


@dataclass(frozen=True, slots=True)
class Share:
    """How many free slots a replica may claim now, or how many of its own it gives back."""

    claim: int
    release: int


def fair_share(slots: int, live_replicas: int, held: int) -> Share:
    """Return the step of a replica that holds `held` of `slots` among `live_replicas`.

    Nobody claims beyond the rounded-up share, and what is above it is given back: replicas that
    follow this rule settle, and never pass a slot to and fro.
    """
    share = -(-slots // max(1, live_replicas))
    return Share(claim=max(0, share - held), release=max(0, held - share))
