"""One running system for the acceptance tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagabus_testkit import LocalStack
from sagabus_testkit.orders import DEFINITION
from sagabus_testkit.system import Servers, System

from .support import Shop


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests last: their services run to the end of all, and cost half a core."""
    here = Path(__file__).parent
    items.sort(key=lambda item: here in item.path.parents)


@pytest.fixture(scope="session")
def shop(stack: LocalStack) -> Iterator[Shop]:
    """Return the running system; its logs are kept in build/ for the time after a failure."""
    logs = Path("build") / f"acceptance-logs-{os.getpid()}"
    with System(Servers.of(stack), logs, name="shop") as system:
        system.start()
        found = Shop(system, stack)
        found.sagabus("definitions", "publish", str(DEFINITION), "--activate")
        yield found
