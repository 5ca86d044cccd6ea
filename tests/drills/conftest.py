"""One stack for all drills; one system without and one with proxies between it and the servers."""

from collections.abc import Iterator

import pytest

from sagabus_testkit import LocalStack
from sagabus_testkit.faults import FaultyNetwork
from sagabus_testkit.system import Servers, System

from .support import LOGS, TARGET, Book, Site


@pytest.fixture(scope="session")
def book(request: pytest.FixtureRequest) -> Book:
    reporter = request.config.pluginmanager.getplugin("terminalreporter")

    def tell(line: str) -> None:
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(line)

    TARGET.unlink(missing_ok=True)
    return Book(tell)


@pytest.fixture(scope="module")
def site(stack: LocalStack, book: Book, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Return a running system of this module, right on the servers."""
    name = request.module.__name__.rpartition("test_")[2]
    replicas = getattr(request.module, "REPLICAS", {})
    with System(Servers.of(stack), LOGS / name, name=name, replicas=replicas) as system:
        found = Site(stack, system.start(), book)
        found.publish()
        yield found


@pytest.fixture(scope="session")
def network(stack: LocalStack) -> Iterator[FaultyNetwork]:
    with FaultyNetwork(stack) as opened:
        yield opened


@pytest.fixture(scope="module")
def remote_site(stack: LocalStack, network: FaultyNetwork, book: Book) -> Iterator[Site]:
    """Return a running system whose services reach both servers through proxies."""
    with System(network.servers, LOGS / "remote", name="remote") as system:
        found = Site(stack, system.start(), book)
        found.publish()
        yield found
