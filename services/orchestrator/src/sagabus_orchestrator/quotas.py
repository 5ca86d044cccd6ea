"""Quotas of sagas that are not terminal: headroom in offset order, one change per tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Quota", "Quotas"]


@dataclass(frozen=True, slots=True)
class Quota:
    """A tenant's limit and use, as locked."""

    max_active: int
    active: int


class Quotas:
    """The locked quotas of a batch with what its decisions take and give back.

    A tenant without a quota row is not limited and touches nothing.
    """

    def __init__(self, quotas: Mapping[str, Quota] | None = None) -> None:
        self._quotas = dict(quotas or {})
        self._changes: Counter[str] = Counter()

    def has_room(self, tenant: str) -> bool:
        """Whether one more saga may start."""
        quota = self._quotas.get(tenant)
        return quota is None or quota.active + self._changes[tenant] < quota.max_active

    def take(self, tenant: str) -> None:
        """Count a start."""
        self._changes[tenant] += 1

    def give_back(self, tenant: str) -> None:
        """Count a terminal transition."""
        self._changes[tenant] -= 1

    @property
    def changes(self) -> dict[str, int]:
        """What to add per tenant, in tenant order."""
        return {
            tenant: self._changes[tenant]
            for tenant in sorted(self._quotas)
            if self._changes[tenant]
        }
