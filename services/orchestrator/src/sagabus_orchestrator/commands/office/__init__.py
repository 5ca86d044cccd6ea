"""Where commands get their answers: through the HTTP API, or from the database itself.

Both ways answer with the same documents, in the shape of the API's own answers, so that what
people and programs read does not depend on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sagabus_cli import Api, current_connection
from sagabus_orchestrator.commands.office.direct import DirectOffice
from sagabus_orchestrator.commands.office.ports import (
    BulkVerb,
    Document,
    LetterOrder,
    Limited,
    Listing,
    ManyOrder,
    Office,
    Order,
    SagaName,
    Steering,
    Switch,
)
from sagabus_orchestrator.commands.office.remote import RemoteOffice

__all__ = [
    "BulkVerb",
    "Document",
    "LetterOrder",
    "Limited",
    "Listing",
    "ManyOrder",
    "Office",
    "Order",
    "SagaName",
    "Steering",
    "Switch",
    "open_office",
]


@contextmanager
def open_office() -> Iterator[Office]:
    """Lend the way of this run: the API where one is known, else the database."""
    address = current_connection().api
    if address is None:
        yield DirectOffice()
        return
    with Api.at(address) as api:
        yield RemoteOffice(api)
