"""Test kit of sagabus: the local stack with real Kafka and Postgres, fixtures and suites."""

from sagabus_testkit.errors import TestkitError
from sagabus_testkit.eventually import eventually, eventually_sync
from sagabus_testkit.proxy import TcpProxy
from sagabus_testkit.stack import (
    Kafka,
    LocalStack,
    NotControllable,
    Postgres,
    ProxiedListener,
    StackError,
)

__all__ = [
    "Kafka",
    "LocalStack",
    "NotControllable",
    "Postgres",
    "ProxiedListener",
    "StackError",
    "TcpProxy",
    "TestkitError",
    "eventually",
    "eventually_sync",
]
