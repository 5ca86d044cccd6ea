"""What one saga waits for: facts from the database and from Kafka, and what they mean."""

from sagabus_orchestrator.why.explain import Explanation, Point, explain
from sagabus_orchestrator.why.facts import (
    Asked,
    Bus,
    BusFacts,
    Facts,
    Finding,
    Place,
    Record,
    Told,
)
from sagabus_orchestrator.why.gather import Gatherer

__all__ = [
    "Asked",
    "Bus",
    "BusFacts",
    "Explanation",
    "Facts",
    "Finding",
    "Gatherer",
    "Place",
    "Point",
    "Record",
    "Told",
    "explain",
]
