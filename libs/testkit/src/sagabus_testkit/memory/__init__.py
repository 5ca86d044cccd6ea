"""Sagas in memory: a team's own handlers, virtual time, scripted faults; no broker, no database."""

from sagabus_testkit.memory.agreement import check_agreement
from sagabus_testkit.memory.errors import KitError
from sagabus_testkit.memory.kit import Document, KitMaker, SagaKit
from sagabus_testkit.memory.resources import Resources
from sagabus_testkit.memory.saga import Saga
from sagabus_testkit.memory.script import At, Crash, Script
from sagabus_testkit.memory.stubs import HONEST, Act, Acts, Books, InDoubt

__all__ = [
    "HONEST",
    "Act",
    "Acts",
    "At",
    "Books",
    "Crash",
    "Document",
    "InDoubt",
    "KitError",
    "KitMaker",
    "Resources",
    "Saga",
    "SagaKit",
    "Script",
    "check_agreement",
]
