"""Pure aids for tests of sagas: documents, a driver on virtual time, correct participants."""

from sagabus_core.testing.conditions import TinyConditions
from sagabus_core.testing.documents import (
    choice,
    compensatable,
    document,
    parallel,
    pivot,
    retriable,
    timing,
)
from sagabus_core.testing.driver import SagaDriver
from sagabus_core.testing.participants import World

__all__ = [
    "SagaDriver",
    "TinyConditions",
    "World",
    "choice",
    "compensatable",
    "document",
    "parallel",
    "pivot",
    "retriable",
    "timing",
]
