"""One running system on which all sagas of the behaviour suite are played at once."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from sagabus_testkit import LocalStack
from sagabus_testkit.system import SERVICES, Servers, System

from .live import Played, play_all
from .workflows import PARTICIPANT

_KINDS = [kind for kind in SERVICES if kind.name in {"orchestrator", "timer", "relay"}]


@pytest.fixture(scope="session")
def played(stack: LocalStack) -> Mapping[str, Played]:
    """Return how every saga ended, by scenario."""
    servers = Servers.of(stack)
    name = f"behaviour-{os.getpid()}"
    names = [kind.name for kind in _KINDS if kind.has_outbox]
    outboxes = {each: f"{name}_{each}".replace("-", "_") for each in [*names, PARTICIPANT]}
    servers.ensure_database(PARTICIPANT, outboxes[PARTICIPANT])
    listed = {each: servers.dsn(each, database) for each, database in outboxes.items()}
    settings = {"relay": {"SAGABUS_OUTBOXES": json.dumps(listed)}}
    logs = Path("build") / f"{name}-logs"
    with System(servers, logs, name=name, settings=settings, kinds=_KINDS) as system:
        system.prepare()
        return asyncio.run(play_all(system, listed[PARTICIPANT]))
