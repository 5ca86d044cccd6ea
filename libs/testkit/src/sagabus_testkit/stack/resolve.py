"""Where servers come from: the environment, else Docker, else processes of our own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from sagabus_testkit.stack.control import ExternalControl
from sagabus_testkit.stack.docker import docker_answers, docker_kafka, docker_postgres
from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.home import StackHome
from sagabus_testkit.stack.kafka import Kafka
from sagabus_testkit.stack.local_kafka import local_kafka
from sagabus_testkit.stack.local_postgres import local_postgres
from sagabus_testkit.stack.postgres import Postgres
from sagabus_testkit.stack.probe import kafka_answers, postgres_answers

__all__ = [
    "KAFKA_VARIABLE",
    "POSTGRES_VARIABLE",
    "named_kafka",
    "named_postgres",
    "resolve_kafka",
    "resolve_postgres",
]

KAFKA_VARIABLE = "SAGABUS_KAFKA"
POSTGRES_VARIABLE = "SAGABUS_POSTGRES"


def resolve_kafka(home: StackHome, settings: Mapping[str, str]) -> Kafka:
    """Return a broker, not started yet, from the first source that works."""
    named = os.environ.get(KAFKA_VARIABLE)
    if named:
        return named_kafka(named)
    return docker_kafka(home, settings) if docker_answers() else local_kafka(home, settings)


def resolve_postgres(home: StackHome, settings: Mapping[str, str]) -> Postgres:
    """Return a Postgres, not started yet, from the first source that works."""
    named = os.environ.get(POSTGRES_VARIABLE)
    if named:
        return named_postgres(named)
    return docker_postgres(home, settings) if docker_answers() else local_postgres(home, settings)


def named_kafka(bootstrap: str) -> Kafka:
    """Return a broker that somebody else runs. Raises `StackError` (`invalid_address`)."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    if not host or not port.isdecimal():
        raise StackError(
            "invalid_address", f"{KAFKA_VARIABLE} must be host:port, not {bootstrap!r}"
        )

    def answers() -> bool:
        return kafka_answers(host, int(port))

    return Kafka(bootstrap, ExternalControl("Kafka", KAFKA_VARIABLE, answers))


def named_postgres(dsn: str) -> Postgres:
    """Return a Postgres that somebody else runs. Raises `StackError` (`invalid_address`)."""
    parts = urlsplit(dsn)
    if parts.scheme not in {"postgresql", "postgres"} or not parts.hostname or not parts.username:
        raise StackError(
            "invalid_address",
            f"{POSTGRES_VARIABLE} must look like postgresql://user:password@host:port/database",
        )
    host, port, user = parts.hostname, parts.port or 5432, parts.username

    def answers() -> bool:
        return postgres_answers(host, port, user)

    return Postgres(dsn, ExternalControl("Postgres", POSTGRES_VARIABLE, answers))
