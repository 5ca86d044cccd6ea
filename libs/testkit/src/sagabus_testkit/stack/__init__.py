"""The local stack: real Kafka and Postgres for tests, demo, benchmarks and chaos."""

from sagabus_testkit.stack.errors import NotControllable, StackError
from sagabus_testkit.stack.kafka import Kafka, ProxiedListener
from sagabus_testkit.stack.local_stack import LocalStack
from sagabus_testkit.stack.postgres import Postgres

__all__ = ["Kafka", "LocalStack", "NotControllable", "Postgres", "ProxiedListener", "StackError"]
