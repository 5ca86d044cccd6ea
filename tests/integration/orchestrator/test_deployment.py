"""The tables as they are written down, and the rights with which the process gets along."""

import secrets
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import Command, Message
from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ApiKeys,
    KeyRequest,
    KeyVerifier,
    Permission,
    Principal,
    Role,
)
from sagabus_orchestrator.app import COMPONENTS
from sagabus_orchestrator.audit import Act, By, FactPages, Trail, Wanted
from sagabus_orchestrator.audit.findings import Scope
from sagabus_orchestrator.audit.horizon import Horizon, held_gauge
from sagabus_orchestrator.audit.published import hear_outbox
from sagabus_orchestrator.audit.verify import Verifier
from sagabus_orchestrator.audit.witness import Witness
from sagabus_orchestrator.bulk import BulkFilter, BulkKind, BulkOrder, Bulks, BulkWorker
from sagabus_orchestrator.census import Census, CensusGauges
from sagabus_orchestrator.errors import NotFound
from sagabus_orchestrator.queries import SagaReader
from sagabus_orchestrator.releaser import Releaser
from sagabus_orchestrator.switchboard import Switchboard
from sagabus_orchestrator.upkeep.archive import Archive, ArchivePolicy
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_orchestrator.upkeep.reconciler import Reconciler
from sagabus_store import describe_schema, migrate
from sagabus_store.roles import ensure_login_role, grant
from sagabus_testkit.stack import Postgres

from .support import TOPICS, Rig, commands, lifecycle, open_rig, order, pause, resume

# A line of one migration is its own sum; SHARED has its test in the store.
SUMS = [n for n, each in enumerate(COMPONENTS) if n and len(each.migrations) > 1]


@pytest.mark.parametrize("place", SUMS, ids=lambda n: COMPONENTS[n].name)
async def test_schema_sql_is_the_sum_of_the_migrations(
    postgres: Postgres, database: str, place: int
) -> None:
    name = f"steps_{secrets.token_hex(6)}"
    steps = postgres.create_database(name)
    await migrate(steps, COMPONENTS[: place + 1])
    await migrate(database, COMPONENTS[:place])
    from_file, from_steps = await asyncpg.connect(database), await asyncpg.connect(steps)
    await from_file.execute("set search_path = public, pg_temp")
    folder = Path(COMPONENTS[place].directory)
    file = "sql/schema.sql" if folder.name == "migrations" else f"{folder}/schema.sql"
    await from_file.execute(files("sagabus_orchestrator").joinpath(file).read_text())
    lines = await describe_schema(from_file)
    assert lines == await describe_schema(from_steps)
    assert len(lines) > 20
    await from_file.close()
    await from_steps.close()
    postgres.drop_database(name)


async def keep_up(rig: Rig) -> None:
    """Reconcile, archive, read from the archive, and take a late result there."""
    events = UpkeepEvents(CollectorRegistry())
    assert await Reconciler(rig.database, rig.handler, events).tick()
    assert await Archive(rig.database, events, ArchivePolicy()).move(0) == 1
    found = await SagaReader(rig.database).find("ORD-1")
    assert found.archived_at is not None
    await rig.process(rig.result_record(commands(rig.sent)[0], ordinal=2))


async def work_off(rig: Rig) -> None:
    """Pause in bulk what is paused already: it refuses."""
    order = BulkOrder(BulkKind.PAUSE, BulkFilter(workflow="order"), 10, "ada", "because", "bulk-1")
    bulks = Bulks(rig.database, rig.watcher)
    begun = await bulks.start(order)
    assert await BulkWorker(rig.database, rig.operations, rig.watcher).tick()
    assert (await bulks.get(begun.id)).refused == len(await bulks.refusals(begun.id, 10)) == 1


async def look_back(rig: Rig) -> None:
    """Read pages, prove the journal, and note what is complete; the refusals are kept too."""
    assert (await FactPages(rig.database).facts(Wanted(), 10)).rows
    assert (await FactPages(rig.database).audit(Wanted(outcome="done"), 10)).rows
    await Horizon(rig.database, held_gauge(CollectorRegistry())).move()
    registry = CollectorRegistry()
    await Census(rig.database, CensusGauges(registry), UpkeepEvents(registry)).look()
    with Witness(await rig.database.now_ms()) as witness:
        await hear_outbox(rig.database, TOPICS, Scope(), witness)
        report = await Verifier(rig.database, Scope(), lambda _: None, witness).prove()
    assert (report.sagas, report.breaks) == (1, [])
    act = Act(kind="saga:pause", by=By("ada"), subject="x")
    assert await Trail(rig.database).refused(act, NotFound("not_found", "none"))


async def use_keys(rig: Rig) -> None:
    """Make a key, use it, revoke it."""
    owner, keys = Principal("owner", frozenset(Permission), ALL_TENANTS), ApiKeys(rig.database)
    _, text = await keys.create(KeyRequest("ci", ALL_TENANTS, frozenset({Role.VIEWER})), owner)
    assert (await KeyVerifier(rig.database).verify(text.reveal())).actor == "key:ci"
    assert (await keys.revoke("ci", owner)).revoked_by == "owner"


async def hold_and_release(rig: Rig, command: Command) -> list[Message]:
    """Hold what would be issued behind this answer, then let it go on."""
    switchboard = Switchboard(rig.database)
    await switchboard.set("workflow", "order", By("ada", "because"))
    assert commands(await rig.process(rig.result_record(command))) == []
    await switchboard.release("workflow", "order", By("ada", "because"))
    assert await Releaser(rig.database, rig.operations).tick() == 1
    assert await switchboard.list() == []
    return await rig.read_outbox()


async def story(rig: Rig) -> SagaStatus | str:
    await rig.publish(order())
    await rig.set_quota("acme", 10)
    await rig.tenants.set_rate("acme", "start", 10)
    sent = await rig.process(rig.start_record(), rig.start_record(version=9))
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await work_off(rig)
    await rig.process(rig.result_record(commands(sent)[0]))
    await rig.operations.perform("acme", rig.saga("ORD-1"), resume("r"))
    sent = await hold_and_release(rig, commands(await rig.read_outbox())[0])
    while found := commands(sent):
        sent = await rig.process(*(rig.result_record(command) for command in found))
    await rig.sweeper.sweep()
    await keep_up(rig)
    await look_back(rig)
    assert await rig.tenants.remove_quota("acme")
    await use_keys(rig)
    await rig.registry.retire((await rig.registry.list())[0].ref)
    return lifecycle(rig.sent)[-1].status


async def test_the_rights_of_its_role_suffice(empty_rig: Rig, prepared: str) -> None:
    role = f"orchestrator_{secrets.token_hex(4)}"
    await empty_rig.database.close()
    owner = await asyncpg.connect(prepared)
    await ensure_login_role(owner, role, "secret")
    await grant(owner, COMPONENTS, profile="app", role=role)
    await owner.execute(f"grant select on outbox, inbox to {role}")  # for the eyes of this test
    parts = urlsplit(prepared)
    place = parts.netloc.rpartition("@")[2]
    limited = await open_rig(parts._replace(netloc=f"{role}:secret@{place}").geturl())
    assert await story(limited) == SagaStatus.COMPLETED
    await limited.database.close()
    await owner.execute(f"drop owned by {role}; drop role {role}")
    await owner.close()
