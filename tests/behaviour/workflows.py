"""The workflows of the behaviour suite: four kinds of steps of one participant."""

from typing import Any

from sagabus_core.testing import compensatable, document, pivot, retriable, timing

PARTICIPANT = "shop"
LOCAL = frozenset({"reserve"})
"""Local steps; the SDK answers their CANCEL and RESOLVE."""
RETRIABLE = frozenset({"confirm"})
STEPS = ("reserve", "hold", "pay", "ship", "confirm")

LONG, SHORT, MIDDLE = 30_000, 1_500, 6_000
"""Time-outs: of what is in time even on a busy machine; of what never comes; of what is done in
time and answered late."""


def booking(
    name: str,
    *flow: Any,
    late: str = "",
    late_ms: int = SHORT,
    cancel_ms: int = LONG,
    policy: str = "accept_late_success",
    budget_ms: int = 60_000,
) -> dict[str, Any]:
    """Return reserve, hold, pay, ship, confirm, or the given flow; the step `late` is impatient.

    reserve: local, cancellable; hold: external, cancellable; pay: external, resolve-only; ship:
    the pivot, resolve-only; confirm: retriable.
    """

    def two_way(step: str, **more: Any) -> dict[str, Any]:
        return {
            "participant": PARTICIPANT,
            "timeout_policy": policy if step != "ship" else "accept_late_success",
            "execute": {"timeout_ms": late_ms if step == late else LONG},
            "resolve": quick(LONG, attempts=50, budget_ms=budget_ms),
            **more,
        }

    undo = {"compensate": quick(LONG)}
    cancel = {"cancel": quick(cancel_ms)}
    steps = {
        "reserve": compensatable(**two_way("reserve", **undo, **cancel)),
        "hold": compensatable(**two_way("hold", **undo, **cancel)),
        "pay": compensatable(cancellable=False, **two_way("pay", **undo)),
        "ship": pivot(**two_way("ship")),
        "confirm": retriable(participant=PARTICIPANT, execute=quick(LONG, attempts=10)),
    }
    return document(steps, *(flow or STEPS), workflow=name)


def quick(timeout_ms: int, attempts: int = 5, **more: Any) -> dict[str, Any]:
    """Return the limits of a phase that tries again soon."""
    return timing(
        timeout_ms, attempts, backoff={"initial_ms": 200, "factor": 2, "max_ms": 1_000}, **more
    )
