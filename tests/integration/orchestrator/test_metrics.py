"""What a replica tells Prometheus about its sagas and about what waits."""

from prometheus_client import CollectorRegistry

from sagabus_core.vocabulary import ResultStatus
from sagabus_orchestrator.census import BOUND, Census, CensusGauges
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.lookout import Lookout
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_orchestrator.upkeep.events import UpkeepEvents

from .support import Rig, commands, pause

MANY = 30_000


class Scrape:
    """The metrics of a replica that works on the rig's database."""

    def __init__(self, rig: Rig) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.events = OrchestratorEvents(self.registry)
        self.census = Census(rig.database, CensusGauges(self.registry), UpkeepEvents(self.registry))
        self.lookout = Lookout(rig.database, self.events, RecoveryMode.OFF)
        rig.handler._events = self.events

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"sagabus_{name}", labels)


async def test_a_saga_is_counted_from_its_start_to_its_end(rig: Rig) -> None:
    scrape = Scrape(rig)
    issued = commands(await rig.process(rig.start_record(), rig.start_record(workflow="unknown")))
    while issued:
        issued = commands(await rig.process(*(rig.result_record(c) for c in issued)))

    assert scrape.value("saga_starts_total", workflow="order") == 1
    assert scrape.value("saga_starts_refused_total", code="definition_unknown") == 1
    inventory = {"participant": "inventory", "phase": "EXECUTE"}
    assert scrape.value("saga_commands_total", **inventory) == 2
    assert scrape.value("saga_results_total", status="SUCCEEDED", **inventory) == 2
    ended = {"workflow": "order", "status": "COMPLETED"}
    assert scrape.value("saga_duration_seconds_count", **ended) == 1
    lasted = scrape.value("saga_duration_seconds_sum", **ended)
    assert lasted is not None
    assert 0 < lasted < 60
    assert scrape.value("saga_transitions_total", workflow="order", status="COMPLETED") == 1


async def test_a_saga_that_needs_a_person_is_counted_once_and_shown_until_it_does_not(
    rig: Rig,
) -> None:
    scrape = Scrape(rig)
    (command,) = commands(await rig.process(rig.start_record()))
    await rig.process(rig.result_record(command, ResultStatus.HALTED))
    await scrape.census.look()
    assert scrape.value("saga_interventions_total", workflow="order", reason="step_halted") == 1
    assert scrape.value("sagas_manual", workflow="order") == 1

    await rig.process(rig.result_record(command, ResultStatus.SUCCEEDED, ordinal=2))
    await scrape.census.look()
    assert scrape.value("saga_interventions_total", workflow="order", reason="step_halted") == 1
    assert scrape.value("sagas_manual", workflow="order") == 0


async def test_what_waits_is_shown_with_the_age_of_the_oldest(rig: Rig) -> None:
    scrape = Scrape(rig)
    (command,) = commands(await rig.process(rig.start_record()))
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await rig.process(rig.result_record(command))
    await rig.process(rig.start_record("ORD-2"))
    await rig.run("update deferred_message set deferred_at = now() - interval '1 hour'")
    await rig.run(
        "update saga set armed_at_ms = 1000 * extract(epoch from now() - interval '2 hours')"
        " where id = $1",
        rig.saga("ORD-2"),
    )
    await scrape.census.look()
    await scrape.lookout.look()
    assert scrape.value("deferred_messages") == 1
    assert scrape.value("sagas_overdue") == 1
    assert 3_600 <= (scrape.value("deferred_oldest_seconds") or 0) < 3_700
    assert 7_200 <= (scrape.value("sagas_overdue_seconds") or 0) < 7_300
    assert scrape.value("operations_total", kind="pause") == 1


async def test_an_empty_database_shows_zeros(rig: Rig) -> None:
    scrape = Scrape(rig)
    await scrape.census.look()
    zeros = (
        "deferred_messages",
        "deferred_oldest_seconds",
        "sagas_overdue",
        "sagas_overdue_seconds",
    )
    assert [scrape.value(name) for name in zeros] == [0, 0, 0, 0]
    assert scrape.value("reconciler_waiting", waiting_for="machine") == 0


async def test_a_disaster_of_any_size_costs_a_bounded_look(rig: Rig) -> None:
    scrape = Scrape(rig)
    (command,) = commands(await rig.process(rig.start_record()))
    await rig.process(rig.result_record(command, ResultStatus.HALTED))
    await rig.run(
        "insert into saga select gen_random_uuid(), tenant, workflow, business_key || n,"
        " definition_scope, definition_version, definition_digest, status, control, revision, 1,"
        " snapshot_schema, snapshot, journal_head, traceparent, start_id, created_at, updated_at"
        f" from saga, generate_series(1, {MANY}) n"
    )
    await rig.run("analyze saga")
    await scrape.census.look()
    assert scrape.value("sagas_manual", workflow="order") == BOUND
    assert scrape.value("sagas_overdue") == BOUND
