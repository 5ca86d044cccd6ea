"""Bounded exponential back-off with jitter: no retry of this project goes without it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from sagabus_core.errors import InvalidValue

__all__ = ["BackOff", "BackOffPolicy"]


@dataclass(frozen=True, slots=True)
class BackOffPolicy:
    """How long to wait between attempts; `jitter` is the share of each wait that is random."""

    first_ms: int = 100
    max_ms: int = 10_000
    factor: float = 2.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        """Refuse a policy that could wait for nothing, for ever, or ever shorter."""
        if not (1 <= self.first_ms <= self.max_ms and self.factor >= 1 and 0 <= self.jitter <= 1):
            raise InvalidValue(
                "invalid_back_off",
                f"{self}: needs 1 <= first_ms <= max_ms, factor >= 1 and jitter from 0 to 1",
            )


class BackOff:
    """The waits of one sequence of failed attempts.

    Each wait lies between `(1 - jitter) * step` and `step`, where the step grows by the factor
    up to the maximum: many replicas that fail together do not return together.
    """

    def __init__(
        self,
        policy: BackOffPolicy | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy or BackOffPolicy()
        self._random = random
        self._step_ms = float(self._policy.first_ms)
        self.attempts = 0
        """Failed attempts since the last reset."""

    def next_ms(self) -> int:
        """Count a failure and return the wait before the next attempt, in milliseconds."""
        step = self._step_ms
        # Capped at each step: an unbounded power would overflow a float in a long outage.
        self._step_ms = min(step * self._policy.factor, float(self._policy.max_ms))
        self.attempts += 1
        return max(1, round(step * (1 - self._policy.jitter * self._random())))

    def reset(self) -> None:
        """Begin again at the first step: the last attempt succeeded."""
        self._step_ms = float(self._policy.first_ms)
        self.attempts = 0
