"""Holds, both ways."""

from __future__ import annotations

from urllib.parse import quote

from sagabus_cli import Api, actor
from sagabus_orchestrator.api.models.holds import HoldAnswer, HoldList
from sagabus_orchestrator.audit.trail import By
from sagabus_orchestrator.commands.office.ports import Document, Switch
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.switchboard import HoldState, Switchboard
from sagabus_store import Database

__all__ = ["DirectSwitches", "RemoteSwitches"]


class DirectSwitches:
    """Works on the database, as SAGABUS_ACTOR or the user of this machine."""

    def holds(self) -> Document:
        """Return what is held."""

        async def work(database: Database) -> Document:
            found = await Switchboard(database).list()
            return HoldList(holds=list(map(_answer, found))).model_dump(mode="json")

        return with_database(work)

    def hold(self, switch: Switch, reason: str) -> Document:
        """Set a hold."""
        by = By(actor(), reason)

        async def work(database: Database) -> Document:
            board = Switchboard(database)
            held = await board.set(switch.target, switch.name, by, switch.tenant or "")
            return _answer(held).model_dump(mode="json")

        return with_database(work)

    def release(self, switch: Switch, reason: str) -> None:
        """Release a hold."""
        by = By(actor(), reason)

        async def work(database: Database) -> None:
            board = Switchboard(database)
            await board.release(switch.target, switch.name, by, switch.tenant or "")

        with_database(work)


class RemoteSwitches:
    """Asks the API: those that concern the caller's tenants."""

    _api: Api

    def holds(self) -> Document:
        """Return what is held."""
        return self._api.get("/v1/holds")

    def hold(self, switch: Switch, reason: str) -> Document:
        """Set a hold."""
        return self._api.put(_place(switch), {"tenant": switch.tenant, "reason": reason})

    def release(self, switch: Switch, reason: str) -> None:
        """Release a hold."""
        body = {"tenant": switch.tenant, "reason": reason}
        self._api.post(f"{_place(switch)}/release", body)


def _place(switch: Switch) -> str:
    return f"/v1/holds/{switch.target}/{quote(switch.name, safe='')}"


def _answer(hold: HoldState) -> HoldAnswer:
    return HoldAnswer.of(hold, counted=True)
