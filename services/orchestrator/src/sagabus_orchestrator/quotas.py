"""What tenants may do: sagas that run at once, and actions in a window of the database clock.

Headroom is taken in offset order; what a transaction takes and gives back is written in one change
per tenant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sagabus_orchestrator.errors import Refused

__all__ = ["OPERATION", "START", "Action", "Quota", "Quotas", "Rate", "UsedRate"]

Action: TypeAlias = Literal["start", "operation"]
START: Final[Action] = "start"
OPERATION: Final[Action] = "operation"


@dataclass(frozen=True, slots=True)
class Quota:
    """A tenant's limit and use, as locked."""

    max_active: int
    active: int


@dataclass(frozen=True, slots=True)
class Rate:
    """How many actions a window may hold; `used` were committed in the window `window_no`."""

    most: int
    window_ms: int
    window_no: int
    used: int

    def window_at(self, now_ms: int) -> int:
        """Return the number of the present window; a clock that was set back opens no new one."""
        return max(now_ms // self.window_ms, self.window_no)

    def used_at(self, now_ms: int) -> int:
        """Return how many actions the present window has seen."""
        return self.used if self.window_at(now_ms) == self.window_no else 0


@dataclass(frozen=True, slots=True)
class UsedRate:
    """A rate as a transaction leaves it."""

    tenant: str
    action: Action
    window_no: int
    used: int


class Quotas:
    """The locked limits of a batch with what its decisions take and give back.

    A tenant without a row is not limited and touches nothing.
    """

    def __init__(
        self,
        quotas: Mapping[str, Quota] | None = None,
        rates: Mapping[tuple[str, Action], Rate] | None = None,
    ) -> None:
        self._quotas = dict(quotas or {})
        self._rates = dict(rates or {})
        self._changes: Counter[str] = Counter()
        self._acted: Counter[tuple[str, Action]] = Counter()

    def refusal(self, tenant: str, now_ms: int) -> str | None:
        """Return the code with which one more start is refused, or None if it may begin."""
        quota = self._quotas.get(tenant)
        if quota is not None and quota.active + self._changes[tenant] >= quota.max_active:
            return "tenant_quota_exceeded"
        return None if self.may_act(tenant, START, now_ms) else "rate_limit_exceeded"

    def may_act(self, tenant: str, action: Action, now_ms: int) -> bool:
        """Whether the present window has room for one more action."""
        rate = self._rates.get((tenant, action))
        if rate is None:
            return True
        return rate.used_at(now_ms) + self._acted[tenant, action] < rate.most

    def take(self, tenant: str) -> None:
        """Count a start."""
        self._changes[tenant] += 1
        self.act(tenant, START)

    def act(self, tenant: str, action: Action) -> None:
        """Count an action; only the commit of its transaction makes it so."""
        self._acted[tenant, action] += 1

    def operate(self, tenant: str, now_ms: int) -> None:
        """Count an operation. Raises `Refused` (`rate_limit_exceeded`)."""
        if not self.may_act(tenant, OPERATION, now_ms):
            raise Refused(
                "rate_limit_exceeded",
                f"tenant {tenant!r} has done as many operations as it may in this window: wait, "
                "or raise the rate (sagabus quotas set)",
            )
        self.act(tenant, OPERATION)

    def give_back(self, tenant: str) -> None:
        """Count a terminal transition."""
        self._changes[tenant] -= 1

    @property
    def changes(self) -> dict[str, int]:
        """What to add to the running sagas per tenant, in tenant order."""
        return {
            tenant: self._changes[tenant]
            for tenant in sorted(self._quotas)
            if self._changes[tenant]
        }

    def used_rates(self, now_ms: int) -> Iterator[UsedRate]:
        """Yield what limited tenants have used by now, where this transaction changes it."""
        for place in sorted(self._rates):
            rate, acted = self._rates[place], self._acted[place]
            if acted:
                yield UsedRate(*place, rate.window_at(now_ms), rate.used_at(now_ms) + acted)
