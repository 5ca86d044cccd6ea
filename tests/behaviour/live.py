"""Plays all scenarios at once on real servers: every part real, the network faulty by script."""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sagabus_bus import TopicAdmin
from sagabus_client import OutcomePending, SagabusClient, SagaHandle, StartCommand
from sagabus_core.canonical import canonical_bytes
from sagabus_expressions import CelConditions
from sagabus_messages import Topics
from sagabus_orchestrator.queries import SagaReader
from sagabus_orchestrator.registry import Registry
from sagabus_orchestrator.timeline import timeline
from sagabus_participant import ParticipantSettings
from sagabus_store import Database, DatabaseOptions
from sagabus_testkit.live import FaultyBridge, LiveParticipant, Part
from sagabus_testkit.memory import Saga
from sagabus_testkit.system import System

from .scenarios import SCENARIOS, Scenario
from .workflows import LOCAL, PARTICIPANT, RETRIABLE, STEPS

PARTITIONS = 4
WITHIN_S = 60.0


@dataclass(frozen=True)
class Played:
    """How a saga ended, and the truth."""

    saga: Saga
    part: Part


async def play_all(system: System, dsn: str) -> dict[str, Played]:
    """Start the services and every saga; return how each ended, or where it stands too late."""
    edge = Topics(f"edge-{os.getpid()}.")
    parts = {scenario.name: Part() for scenario in SCENARIOS}
    for scenario in SCENARIOS:
        scenario.given(parts[scenario.name])
    async with TopicAdmin(system.connection) as admin:
        for topics in (system.topics, edge):
            await admin.ensure(topics.catalogue([PARTICIPANT], PARTITIONS))
    for name in system.names:
        system.spawn(name)
    bridge = FaultyBridge(system.connection, system.topics, edge, (PARTICIPANT,), parts)
    async with bridge, _participant(system, edge, dsn, parts):
        for name in system.names:
            await asyncio.to_thread(system.restart, name)
        await _play(system)
    return await _read(system, parts)


def _participant(
    system: System, edge: Topics, dsn: str, parts: Mapping[str, Part]
) -> LiveParticipant:
    settings = ParticipantSettings(
        kafka=system.servers.bootstrap,
        topic_prefix=edge.prefix,
        postgres=dsn,
        worker_lease_ms=1_000,
    )
    live = LiveParticipant(PARTICIPANT, settings, parts)
    for step in STEPS:
        live.add(step, local=step in LOCAL, retriable=step in RETRIABLE)
    return live


async def _play(system: System) -> None:
    database = await _database(system)
    registry = Registry(database, CelConditions(), system.topics)
    for scenario in SCENARIOS:
        published = await registry.publish(canonical_bytes(scenario.document))
        await registry.activate(published.ref, _nothing_missing)
    await database.close()
    async with SagabusClient(system.connection, system.topics, name="behaviour") as client:
        # The first waits until every consumer has joined its group; the others find all at work.
        await _wait(client, await client.start(_start(SCENARIOS[0])))
        handles = await client.start_all([_start(scenario) for scenario in SCENARIOS[1:]])
        await asyncio.gather(*(_wait(client, handle) for handle in handles))


def _start(scenario: Scenario) -> StartCommand:
    deadline_ms = scenario.deadline_ms
    at_ms = int(time.time() * 1000) + deadline_ms if deadline_ms else None
    return StartCommand("default", scenario.name, "saga-1", deadline_at_ms=at_ms)


async def _wait(client: SagabusClient, handle: SagaHandle) -> None:
    try:
        await client.wait(handle, timeout_s=WITHIN_S)
    except OutcomePending:
        return  # its test says where it stands


async def _read(system: System, parts: Mapping[str, Part]) -> dict[str, Played]:
    database = await _database(system)
    reader = SagaReader(database)
    found: dict[str, Played] = {}
    for name, part in parts.items():
        detail = await reader.find("saga-1", "default", name)
        story = "\n".join(str(line) for line in timeline(fact.body for fact in detail.facts))
        found[name] = Played(Saga(detail.snapshot, tuple(part.calls), None, story), part)
    await database.close()
    return found


async def _database(system: System) -> Database:
    options = DatabaseOptions("behaviour", pool_size=2)
    database = Database(system.database("orchestrator"), options)
    await database.open()
    return database


async def _nothing_missing(names: Iterable[str]) -> Iterable[str]:
    del names
    return ()
