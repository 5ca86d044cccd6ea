"""What handlers get as `ctx.conn` and `ctx.db`: a fake that rolls back, or a real transaction."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias
from unittest.mock import NonCallableMock

from sagabus_testkit.memory.errors import KitError

__all__ = ["Resources", "RolledBack", "Transaction", "roll_back"]

Transaction: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens a transaction around one handler: commits on leaving, rolls back on an exception."""


class RolledBack(Exception):
    """Leaves a transaction whose handler did not succeed; a signal, no error."""


def roll_back() -> NoReturn:
    """Leave the transaction without committing it. Raises `RolledBack`."""
    raise RolledBack


@dataclass(frozen=True, slots=True)
class Resources:
    """What the handlers of one participant may use.

    `conn` is any object of the team's own; where a handler does not succeed, its attributes are
    put back as they were (not those of a mock). `transaction` is a factory such as
    `Database.transaction` and comes first. `db` is `ctx.db` of external steps, as it is.
    """

    conn: object | None = None
    transaction: Transaction | None = None
    db: object | None = None

    def begin(self) -> AbstractAsyncContextManager[Any]:
        """Open the transaction of one local handler."""
        if self.transaction is not None:
            return self.transaction()
        return _put_back(_Missing("conn") if self.conn is None else self.conn)

    @property
    def outside(self) -> object:
        """What an external step gets as `ctx.db`."""
        return _Missing("db") if self.db is None else self.db


class _Missing:
    """Stands where the team gave nothing, and says so when it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise KitError(
            "resource_missing",
            f"a handler uses ctx.{self._name}.{attribute}: give the kit `{self._name}=`",
        )


@asynccontextmanager
async def _put_back(conn: Any) -> AsyncIterator[Any]:  # noqa: ANN401  (a team's own fake)
    keeps = hasattr(conn, "__dict__") and not isinstance(conn, NonCallableMock | _Missing)
    before = copy.deepcopy(vars(conn)) if keeps else {}
    try:
        yield conn
    except BaseException:
        if keeps:
            vars(conn).clear()
            vars(conn).update(before)
        raise
