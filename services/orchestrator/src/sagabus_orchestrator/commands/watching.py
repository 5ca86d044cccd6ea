"""`--watch`: look again whenever something may have changed, draw what has.

An outage ends no watch: it is told once, looked through, and given up after SAGABUS_WATCH_OUTAGE_S.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Final, NoReturn, TypeAlias, TypeVar

import typer

from sagabus_cli import NotReachable, Output, UsageError, current_output
from sagabus_client import OUTAGE_S, Patience
from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import SagaStatus
from sagabus_orchestrator.commands.office import Document, Listing, Office, SagaName

__all__ = ["Outages", "Watch", "watch_page", "watch_saga", "watch_until"]

T = TypeVar("T")
_LOOK_S: Final = 1.0
Watch: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Draw again on every change, until Ctrl-C or, of one saga, until it is settled; with "
        "--json one document a line. Goes on over outages of up to SAGABUS_WATCH_OUTAGE_S seconds "
        "(300).",
    ),
]
Draw: TypeAlias = Callable[[Output, Document], None]


class Outages:
    """What a watch does about outages: says so once, tries again, gives up in the end."""

    def __init__(self) -> None:
        self.outage_s = _outage_s()
        self._patience = Patience(self.outage_s)
        self._told = False

    def look(self, ask: Callable[[], T]) -> T:
        """Return what `ask` answers, over outages. Raises what is no outage, and `NotReachable`."""
        while True:
            try:
                found = ask()
            except SagabusError as error:
                if not error.retryable:
                    raise
                self._wait(error)
            else:
                self.over()
                return found

    def begun(self, error: SagabusError) -> None:
        """Tell of an outage, once."""
        if not self._told:
            self._told = True
            current_output().warn(f"{error.detail}; trying again for {self.outage_s:g} s")

    def over(self) -> None:
        """Tell that an outage is over, if one was told of."""
        self._patience.answered()
        if self._told:
            self._told = False
            current_output().warn("it answers again")

    def _wait(self, error: SagabusError) -> None:
        self.begun(error)
        pause_s = self._patience.pause_after(time.monotonic())
        if pause_s is None:
            told = self._patience.gave_up(error)
            raise NotReachable(told.code, told.detail) from error
        time.sleep(pause_s)


def watch_saga(
    office: Office, look: Callable[[SagaName], Document], name: SagaName, draw: Draw
) -> None:
    """Draw what `look` finds, again on every change, until the saga is settled.

    Its id is kept: a business key that another saga takes meanwhile does not lead astray.
    """
    output, outages = _watching(), Outages()
    found = look(name)
    draw(output, found)
    known = SagaName(found["saga_id"])
    while not _is_settled(found):
        seen, revision = found, found["revision"]
        outages.look(lambda: office.await_change(known.text, revision))  # noqa: B023 - asked now
        found = outages.look(lambda: look(known))
        if found != seen:
            draw(output, found)


def watch_page(
    office: Office, wanted: Listing, look: Callable[[], Document], draw: Draw
) -> NoReturn:
    """Draw what `look` finds, again on every change, until Ctrl-C."""
    output, outages = _watching(), Outages()
    seen = look()
    draw(output, seen)
    while True:
        for _ in office.news(wanted, outages):
            found = outages.look(look)
            if found != seen:
                draw(output, found)
            seen = found


def watch_until(
    look: Callable[[], Document], draw: Draw, is_over: Callable[[Document], bool]
) -> Document:
    """Draw what `look` finds, again on every change, until it is over; returns the last."""
    output, outages = _watching(), Outages()
    found = look()
    draw(output, found)
    while not is_over(found):
        time.sleep(_LOOK_S)
        seen, found = found, outages.look(look)
        if found != seen:
            draw(output, found)
    return found


def _watching() -> Output:
    return replace(current_output(), watching=True)


def _is_settled(saga: Document) -> bool:
    """Return whether nothing more happens by itself: ended, or waiting for an operator."""
    status = SagaStatus(saga["status"])
    return status.is_terminal or status is SagaStatus.MANUAL_INTERVENTION


def _outage_s() -> float:
    text = os.environ.get("SAGABUS_WATCH_OUTAGE_S", "")
    try:
        found = float(text) if text else OUTAGE_S
    except ValueError:
        found = -1.0
    if not 0 <= found <= 86_400:
        raise UsageError("usage", "SAGABUS_WATCH_OUTAGE_S is a number of seconds, up to a day")
    return found
