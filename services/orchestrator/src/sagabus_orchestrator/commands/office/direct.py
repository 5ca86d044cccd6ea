"""Answers from the orchestrator's database itself: what works while no API runs."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from sagabus_bus import TopicAdmin
from sagabus_bus.signatures import SigningSettings, signer_of
from sagabus_cli import NotReachable, UsageError, actor, current_connection
from sagabus_core.definitions import Definition
from sagabus_core.engine import (
    Cancel,
    ManagementEvent,
    ManualClose,
    Operation,
    OperationKind,
    Pause,
    RecordOutcome,
    Resume,
    Retry,
)
from sagabus_expressions import CelConditions
from sagabus_messages.strict_json import load
from sagabus_orchestrator.api.models.definitions import (
    DefinitionAnswer,
    DefinitionDocument,
    DefinitionList,
    definition_fields,
)
from sagabus_orchestrator.api.models.operations import OperationAnswer
from sagabus_orchestrator.api.models.sagas import SagaAnswer, SagaPage
from sagabus_orchestrator.api.models.why import WhyAnswer
from sagabus_orchestrator.audit.trail import By
from sagabus_orchestrator.catalog import GLOBAL, CatalogWatcher, DefinitionRef
from sagabus_orchestrator.commands.attestations import read_attestation
from sagabus_orchestrator.commands.groups import chosen_readers
from sagabus_orchestrator.commands.office.bulk import DirectBulk
from sagabus_orchestrator.commands.office.evidence import DirectEvidence
from sagabus_orchestrator.commands.office.keys import DirectKeys
from sagabus_orchestrator.commands.office.letters import DirectLetters
from sagabus_orchestrator.commands.office.limits import DirectLimits
from sagabus_orchestrator.commands.office.ports import (
    Document,
    Listing,
    Order,
    Outages,
    SagaName,
    Steering,
)
from sagabus_orchestrator.commands.office.switches import DirectSwitches
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.errors import NotFound, OrphanedInstances
from sagabus_orchestrator.operations import Operations
from sagabus_orchestrator.queries import SagaDetail, SagaFilter, SagaReader
from sagabus_orchestrator.registry import Published, Registry
from sagabus_orchestrator.why import Bus, Gatherer, explain
from sagabus_orchestrator.why.kafka import KafkaBus, NoBus
from sagabus_runtime import Tracing
from sagabus_runtime import load as load_settings
from sagabus_store import Database

__all__ = ["DirectOffice"]

_POLL_S: Final = 1.0
_PLAIN: Final[Mapping[OperationKind, Callable[[Operation], ManagementEvent]]] = {
    OperationKind.PAUSE: Pause,
    OperationKind.RESUME: Resume,
    OperationKind.CANCEL: Cancel,
    OperationKind.RETRY: Retry,
    OperationKind.MANUAL_CLOSE: ManualClose,
}


class DirectOffice(
    DirectEvidence, DirectLimits, DirectLetters, DirectBulk, DirectSwitches, DirectKeys
):
    """Opens the database for each answer; whoever may read its DSN may do all of this."""

    def sagas(self, wanted: Listing) -> Document:
        """Return a page of sagas."""
        found = SagaFilter(
            wanted.tenant,
            wanted.workflow,
            wanted.statuses or None,
            wanted.key_prefix,
            archived=wanted.archived,
        )

        async def work(database: Database) -> Document:
            page = await SagaReader(database).page(found, wanted.limit, wanted.cursor)
            return SagaPage.of(page).model_dump(mode="json")

        return with_database(work)

    def news(self, wanted: Listing, outages: Outages) -> Iterator[None]:
        """Yield each second: to ask whether there is news would cost the same connection."""
        del wanted, outages
        while True:
            time.sleep(_POLL_S)
            yield

    def saga(self, name: SagaName) -> Document:
        """Return a saga with its journal."""

        async def work(database: Database) -> Document:
            detail = await _find(database, name)
            facts = [
                {"revision": fact.revision, "ordinal": fact.ordinal, **fact.body}
                for fact in detail.facts
            ]
            return {**SagaAnswer.of_detail(detail).model_dump(mode="json"), "journal": facts}

        return with_database(work)

    def await_change(self, saga_id: str, revision: int) -> None:
        """Return after a second: to look at the revision alone would cost the same connection."""
        del saga_id, revision
        time.sleep(_POLL_S)

    def why(self, name: SagaName, groups: Sequence[str] | None) -> Document:
        """Return what a saga waits for."""
        readers = chosen_readers(groups)

        async def work(database: Database) -> Document:
            detail = await _find(database, name)
            watcher = CatalogWatcher(database, CelConditions())
            # Else explained without the names of participants; `doctor` tells what is missing.
            with suppress(OrphanedInstances):
                await watcher.refresh()
            facts = await Gatherer(database, watcher.current, readers, _bus()).facts(detail)
            return WhyAnswer.of(detail, facts, explain(facts)).model_dump(mode="json")

        return with_database(work)

    def operate(self, name: SagaName, order: Order) -> Document:
        """Do an operation as SAGABUS_ACTOR, or the user of this machine.

        What it issues is signed with the key that SAGABUS_SIGNING_KEY_FILE names, if any.
        """
        topics = current_connection().topics
        signer = signer_of(load_settings(SigningSettings))

        async def work(database: Database) -> Document:
            found = await _find(database, name)
            head = found.summary
            watcher = CatalogWatcher(database, CelConditions())
            await watcher.refresh()
            event = _event(order, watcher, found)
            allowed = os.environ.get("SAGABUS_MANUAL_CLOSE_ENABLED", "").lower()
            operations = Operations(
                database,
                topics,
                watcher,
                manual_close_enabled=allowed in {"1", "true", "yes"},
                tracing=Tracing.of_host(),
                signer=signer,
            )
            if order.dry_run:
                seen = await operations.dry_run(head.tenant, head.saga_id, event)
                return OperationAnswer.foreseen(head.saga_id, event, seen).model_dump(mode="json")
            done = await operations.perform(head.tenant, head.saga_id, event)
            return OperationAnswer.done(event, done).model_dump(mode="json")

        return with_database(work)

    def definitions(self) -> Document:
        """Return what is published."""
        found = with_database(lambda database: _registry(database).list())
        listed = DefinitionList(definitions=list(map(DefinitionAnswer.of, found)))
        return listed.model_dump(mode="json")

    def definition(self, ref: DefinitionRef) -> Document:
        """Return a published definition."""
        found = with_database(lambda database: _registry(database).get(ref))
        answer = DefinitionDocument(**definition_fields(found), document=load(found.document))
        return answer.model_dump(mode="json")

    def publish(self, raw: bytes, reason: str) -> Document:
        """Publish a draft."""
        return _changed(lambda registry: registry.publish(raw, By(actor(), reason)))

    def steer(self, verb: Steering, ref: DefinitionRef, reason: str) -> Document:
        """Change the state of a definition."""
        by = By(actor(), reason)
        match verb:
            case "activate":
                return _changed(lambda registry: registry.activate(ref, _missing_topics, by))
            case "deprecate":
                return _changed(lambda registry: registry.deprecate(ref, by))
            case "retire":
                return _changed(lambda registry: registry.retire(ref, by))


async def _find(database: Database, name: SagaName) -> SagaDetail:
    return await SagaReader(database).find(name.text, name.tenant, name.workflow)


def _bus() -> Bus:
    try:
        return KafkaBus(current_connection().bus)
    except NotReachable as error:
        return NoBus(error.detail)


def _event(order: Order, watcher: CatalogWatcher, saga: SagaDetail) -> ManagementEvent:
    operation = Operation(order.operation_id, actor(), order.reason, order.expected_revision)
    # Also where it is not asked for a payload: who cannot load it must not decide.
    definition = _definition_of(watcher, saga)
    if order.kind in _PLAIN:
        return _PLAIN[order.kind](operation)
    if order.attest is None or order.evidence is None:
        raise UsageError("usage", "record-outcome takes --attest and --evidence")
    return RecordOutcome(operation, read_attestation(order.attest, definition), order.evidence)


def _definition_of(watcher: CatalogWatcher, saga: SagaDetail) -> Definition:
    """Return the definition that a saga runs on: its tenant may have published another since."""
    head = saga.summary
    for scope in (head.tenant, GLOBAL):
        definition = watcher.current.get(DefinitionRef(scope, head.workflow, head.version))
        if definition is not None and definition.digest == saga.definition_digest:
            return definition
    raise NotFound("not_found", f"the definition {head.workflow} {head.version} is not here")


def _registry(database: Database) -> Registry:
    return Registry(database, CelConditions(), current_connection().topics)


def _changed(change: Callable[[Registry], Awaitable[Published]]) -> Document:
    published = with_database(lambda database: change(_registry(database)))
    return DefinitionAnswer.of(published).model_dump(mode="json")


async def _missing_topics(names: Iterable[str]) -> Iterable[str]:
    wanted = list(names)
    async with TopicAdmin(current_connection().bus) as admin:
        present = await admin.partition_counts(wanted)
    return [name for name in wanted if name not in present]
