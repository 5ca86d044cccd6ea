"""Fixtures for sagas in memory and on real servers, and a closed network for other tests.

`saga_kit` makes kits in memory; a test that fails shows the timelines of its sagas.

One stack serves the whole session and each of its servers starts when the first test asks for it.
A server that cannot start fails the test with the reason; it never skips it. Tests that use a
server get the marker `stack`; the others may connect to loopback and Unix sockets only.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from sagabus_testkit.stack import Kafka, LocalStack, Postgres

if TYPE_CHECKING:
    from sagabus_testkit.memory import KitMaker

__all__ = [
    "database",
    "kafka",
    "local_stack",
    "postgres",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_makereport",
    "saga_kit",
    "stack",
    "topic_prefix",
]

_HERE = ["127.0.0.0/8", "::1"]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let event loops make their pairs of Unix sockets in tests without network."""
    config.option.allow_unix_socket = True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses a server, before `-m` chooses; close the network for what does not."""
    for item in items:
        if "local_stack" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.stack)
        if item.get_closest_marker("stack") is None:
            item.add_marker(pytest.mark.allow_hosts(_HERE))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the timelines of a failed test's sagas."""
    report = yield
    maker = getattr(item, "funcargs", {}).get("saga_kit")
    if report.when == "call" and report.failed:
        for kit in getattr(maker, "kits", ()):
            report.sections += [(repr(saga), saga.timeline) for saga in kit.sagas]
    return report


@pytest.fixture
def saga_kit() -> KitMaker:
    """Return a maker of kits: `saga_kit(definition, *participants, conn=..., ...)`."""
    from sagabus_testkit.memory import KitMaker  # noqa: PLC0415 - only for tests that ask for it

    return KitMaker()


@pytest.fixture(scope="session")
def local_stack() -> Iterator[LocalStack]:
    """Return the session's stack with no server started yet."""
    with LocalStack(f"test-{os.getpid()}") as opened:
        yield opened


@pytest.fixture(scope="session")
def stack(local_stack: LocalStack) -> LocalStack:
    """Return the session's stack with Kafka and Postgres running."""
    return local_stack.start()


@pytest.fixture(scope="session")
def kafka(local_stack: LocalStack) -> Kafka:
    """Return the session's broker. A test that hurts it must leave it running."""
    return local_stack.kafka


@pytest.fixture(scope="session")
def postgres(local_stack: LocalStack) -> Postgres:
    """Return the session's Postgres. A test that hurts it must leave it running."""
    return local_stack.postgres


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """Return the superuser's DSN of an empty database, dropped after the test."""
    name = f"test_{secrets.token_hex(6)}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.fixture
def topic_prefix() -> str:
    """Return a prefix for topics and groups that no other test uses: tests share the broker."""
    return f"t{secrets.token_hex(5)}"
