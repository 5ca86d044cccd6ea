"""Look at what the local stack needs and at a running stack, and say how to mend what is amiss."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from sagabus_testkit.stack.docker import docker_answers
from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.kafka import Kafka
from sagabus_testkit.stack.kafka_install import (
    KAFKA_VERSION,
    MAVEN_HOW,
    cached_kafka,
    check_java,
    find_java,
)
from sagabus_testkit.stack.postgres import Postgres
from sagabus_testkit.stack.postgres_install import find_postgres, unprivileged_identity
from sagabus_testkit.stack.probe import kafka_answers
from sagabus_testkit.stack.record import read_record
from sagabus_testkit.stack.resolve import (
    KAFKA_VARIABLE,
    POSTGRES_VARIABLE,
    named_kafka,
    named_postgres,
)

__all__ = ["Check", "State", "check_stack"]

State = Literal["ok", "failed", "absent"]
"""`absent` is no fault: a stack that nobody started."""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one look: what was found, and how to mend it if it is not ok."""

    name: str
    state: State
    found: str
    mend: str = ""


def check_stack(name: str = "dev") -> list[Check]:
    """Return the outcome of every check; nothing is started, downloaded or changed."""
    return [*_sources(), *_servers(name)]


def _sources() -> Iterator[Check]:
    if docker_answers():
        yield Check("docker", "ok", "an engine answers: servers run as containers")
        return
    if not os.environ.get(KAFKA_VARIABLE):
        yield _look("java", lambda: check_java(find_java()))
        yield _jars()
    if not os.environ.get(POSTGRES_VARIABLE):
        yield _look("postgres", lambda: find_postgres().version)
        yield _look("postgres user", lambda: " ".join(unprivileged_identity().prefix) or "yours")


def _jars() -> Check:
    if cached_kafka() is not None:
        return Check("kafka jars", "ok", f"Kafka {KAFKA_VERSION} is in the cache")
    if shutil.which("mvn"):
        return Check(
            "kafka jars", "ok", f"Maven will bring Kafka {KAFKA_VERSION} at the first start"
        )
    return Check("kafka jars", "failed", "neither the jars in the cache nor Maven", MAVEN_HOW)


def _servers(name: str) -> Iterator[Check]:
    record = read_record(name)
    kafka = os.environ.get(KAFKA_VARIABLE) or (record.kafka if record else None)
    postgres = os.environ.get(POSTGRES_VARIABLE) or (record.postgres if record else None)
    if kafka is None or postgres is None:
        yield Check(f"stack {name}", "absent", "not running", "sagabus up")
    if kafka is not None:
        yield _look("kafka answers", lambda: _ask_kafka(named_kafka(kafka)))
    if postgres is not None:
        yield _look("postgres answers", lambda: _ask_postgres(named_postgres(postgres)))


def _ask_kafka(kafka: Kafka) -> str:
    host, _, port = kafka.bootstrap.partition(",")[0].rpartition(":")
    if not kafka_answers(host, int(port)):
        raise StackError(
            "kafka_unreachable", f"no broker answers at {kafka.bootstrap}: sagabus down, sagabus up"
        )
    return f"metadata from {kafka.bootstrap}"


def _ask_postgres(postgres: Postgres) -> str:
    return f"{postgres.host}:{postgres.port}, version {postgres.ask('show server_version')}"


def _look(name: str, find: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", find())
    except StackError as error:
        return Check(name, "failed", error.code, error.detail)
