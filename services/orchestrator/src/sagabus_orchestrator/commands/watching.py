"""`--watch`: look again whenever something may have changed, draw what has."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Final, NoReturn, TypeAlias

import typer

from sagabus_cli import Output, current_output
from sagabus_core.vocabulary import SagaStatus
from sagabus_orchestrator.commands.office import Document, Office, SagaName

__all__ = ["Watch", "watch_page", "watch_saga"]

_PAGE_S: Final = 1.0
Watch: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Draw again on every change, until Ctrl-C or, of one saga, until it is settled; with "
        "--json one document a line.",
    ),
]
Draw: TypeAlias = Callable[[Output, Document], None]


def watch_saga(
    office: Office, look: Callable[[SagaName], Document], name: SagaName, draw: Draw
) -> None:
    """Draw what `look` finds, again on every change, until the saga is settled.

    Its id is kept: a business key that another saga takes meanwhile does not lead astray.
    """
    output, seen = _watching(), None
    while True:
        found = look(name)
        if found != seen:
            draw(output, found)
        if _is_settled(found):
            return
        seen, name = found, SagaName(found["saga_id"])
        office.await_change(found["saga_id"], found["revision"])


def watch_page(look: Callable[[], Document], draw: Draw) -> NoReturn:
    """Draw what `look` finds, again on every change, until Ctrl-C."""
    output, seen = _watching(), None
    while True:
        found = look()
        if found != seen:
            draw(output, found)
        seen = found
        time.sleep(_PAGE_S)


def _watching() -> Output:
    return replace(current_output(), watching=True)


def _is_settled(saga: Document) -> bool:
    """Return whether nothing more happens by itself: ended, or waiting for an operator."""
    status = SagaStatus(saga["status"])
    return status.is_terminal or status is SagaStatus.MANUAL_INTERVENTION
