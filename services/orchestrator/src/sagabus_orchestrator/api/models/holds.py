"""Holds as callers see them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from sagabus_orchestrator.api.models.fields import Answer, InstantText, Key, Question, Text, at
from sagabus_orchestrator.holds import PLATFORM
from sagabus_orchestrator.switchboard import HoldState

__all__ = ["HoldAnswer", "HoldList", "HoldQuestion", "HoldTarget"]

HoldTarget: TypeAlias = Literal["workflow", "participant"]
"""What is kept back: commands of a workflow, or those to a participant."""


class HoldQuestion(Question):
    """Whose commands are kept back or let go, and why."""

    tenant: Key | None = None
    """None: those of all tenants, which takes the right to all of them."""
    reason: Text
    """Kept in the audit. Of a hold of one tenant it is in the journals of its sagas too; of a hold
    of all tenants they learn that the platform holds, and no more."""


class HoldAnswer(Answer):
    """A hold that is set, or one that was released while its sagas have yet to go on."""

    id: str
    target: HoldTarget
    name: str
    tenant: str | None
    """None: it holds for all tenants."""
    actor: str
    """Of a hold of all tenants, to a caller who has not the right to all: `platform`."""
    reason: str
    set_at: InstantText
    released_at: InstantText | None
    sagas: int | None
    """How many it has paused; None where they are not all of the caller's tenants."""

    @classmethod
    def of(cls, hold: HoldState, *, counted: bool) -> HoldAnswer:
        """Return a hold as callers see it; `counted`: with how many sagas, by whom and why."""
        return cls(
            id=hold.id,
            target="workflow" if hold.target == "workflow" else "participant",
            name=hold.name,
            tenant=hold.tenant or None,
            actor=hold.actor if counted else PLATFORM,
            reason=hold.reason if counted else "held by the platform",
            set_at=at(hold.set_at),
            released_at=at(hold.released_at) if hold.released_at is not None else None,
            sagas=hold.sagas if counted else None,
        )


class HoldList(Answer):
    """Holds in the order in which they were set."""

    holds: list[HoldAnswer]
