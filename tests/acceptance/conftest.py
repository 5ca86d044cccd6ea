"""One running system for the acceptance tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagabus_testkit import LocalStack
from sagabus_testkit.orders import DEFINITION
from sagabus_testkit.system import API, SERVICES, Servers, System

from .collector import Collector, collecting
from .signing import Keys
from .support import Shop


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests last: their services run to the end of all, and cost half a core."""
    here = Path(__file__).parent
    items.sort(key=lambda item: here in item.path.parents)


@pytest.fixture(scope="session")
def shop(stack: LocalStack) -> Iterator[Shop]:
    """Return the running system; its logs are kept in build/ for the time after a failure."""
    logs = Path("build") / f"acceptance-logs-{os.getpid()}"
    with collecting() as collector:
        tracing = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            # Only what a test itself traces: the others run as most do.
            "OTEL_TRACES_SAMPLER": "parentbased_always_off",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        keys = Keys.make(logs / "keys")
        kinds, settings = (*SERVICES, API), {"*": tracing, **keys.settings()}
        with System(Servers.of(stack), logs, name="shop", kinds=kinds, settings=settings) as system:
            yield _opened(system, stack, collector, keys)


def _opened(system: System, stack: LocalStack, collector: Collector, keys: Keys) -> Shop:
    system.start()
    found = Shop(system, stack, collector, keys)
    found.sagabus("definitions", "publish", str(DEFINITION), "--activate")
    return found
