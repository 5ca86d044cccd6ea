"""Calling a team's handlers in memory: contexts, transactions that roll back, what was called."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sagabus_participant import ExternalContext, LocalContext
from sagabus_participant.dispatch import Due, answer, answer_many, context_fields, failure
from sagabus_participant.journal import Finding, Found
from sagabus_participant.orders import Order
from sagabus_participant.step import Context
from sagabus_testkit.memory.errors import KitError
from sagabus_testkit.memory.resources import Resources, RolledBack, roll_back
from sagabus_testkit.memory.story import Story

__all__ = ["Called", "Calling"]


@dataclass(frozen=True, slots=True)
class Called:
    """A handler that was called: `execute`, `execute_many`, `compensate`, ... of a step."""

    saga_id: str
    activation: str
    handler: str

    def __str__(self) -> str:
        return f"{self.activation}.{self.handler}"


@dataclass(slots=True)
class Calling:
    """Calls the handlers of one participant; `calls` is the log of all participants."""

    resources: Resources
    story: Story
    calls: list[Called]
    misuse: list[KitError] = field(default_factory=list)

    async def locally(self, due: Due, *, commits: bool) -> Finding:
        """Call a local handler in a transaction, which is kept after a success alone."""
        finding = Finding(Found.FAILED)
        with suppress(RolledBack):
            async with self.resources.begin() as conn:
                finding = await self._call(due, LocalContext(**_fields(due, conn=conn)))
                if not commits or finding.kind is not Found.SUCCEEDED:
                    roll_back()
        return finding

    async def outside(self, due: Due) -> Finding:
        """Call an external handler."""
        return await self._call(due, ExternalContext(**_fields(due, db=self.resources.outside)))

    async def many(self, dues: Sequence[Due], *, commits: bool) -> list[Finding] | None:
        """Call `execute_many` for several orders of a step; None where it was undone."""
        found: list[Finding] = []
        kept = False
        with suppress(RolledBack):
            async with self.resources.begin() as conn:
                found = await self._call_many(dues, conn)
                if not commits or not all(one.kind is Found.SUCCEEDED for one in found):
                    roll_back()
                kept = bool(found)
        return found if kept else None

    async def _call(self, due: Due, ctx: Context) -> Finding:
        handler = due.call.value.partition("_")[0].lower()
        self._log(due.order, handler)
        try:
            finding = await answer(due, ctx)
        except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
            self._note(due.order, handler, error)
            return failure(due, error)
        self._tell(due.order, handler, finding)
        return finding

    async def _call_many(self, dues: Sequence[Due], conn: object) -> list[Finding]:
        """Return a finding for each, or leave the transaction where any is missing."""
        handler = "execute_many"
        for due in dues:
            self._log(due.order, handler)
        try:
            found = await answer_many(
                dues, [LocalContext(**_fields(due, conn=conn)) for due in dues]
            )
        except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
            for due in dues:
                self._note(due.order, handler, error)
            roll_back()
        for due, finding in zip(dues, found, strict=True):
            self._tell(due.order, handler, finding)
        return found

    def _log(self, order: Order, handler: str) -> None:
        self.calls.append(Called(order.command.saga_id, order.command.activation, handler))

    def _tell(self, order: Order, handler: str, finding: Finding) -> None:
        reason = f" {finding.reason.code}" if finding.reason else ""
        output = finding.output.body.decode() if finding.output else ""
        command = order.command
        said = f"{command.activation}.{handler}: {finding.kind.value}{reason}  {output}"
        self.story.tell(command.saga_id, "ƒ", said.rstrip())

    def _note(self, order: Order, handler: str, error: Exception) -> None:
        if isinstance(error, KitError):
            self.misuse.append(error)
        command = order.command
        self.story.tell(command.saga_id, "ƒ", f"{command.activation}.{handler} raised {error!r}")


def _fields(due: Due, **fake: object) -> dict[str, Any]:
    return {**context_fields(due, due.order.meta.traceparent), **fake}
