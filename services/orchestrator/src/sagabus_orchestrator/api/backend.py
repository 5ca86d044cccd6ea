"""What the routes work with, made once by the service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from sagabus_core.definitions import Definition
from sagabus_orchestrator.api.feed import Feed
from sagabus_orchestrator.api.identity import Authenticator, Principal
from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_orchestrator.api.shares import Shares
from sagabus_orchestrator.api.starting import Starter
from sagabus_orchestrator.api.waiting import StatusWatch
from sagabus_orchestrator.audit import FactPages, Trail
from sagabus_orchestrator.bulk import Bulks
from sagabus_orchestrator.catalog import GLOBAL, CatalogWatcher, DefinitionRef
from sagabus_orchestrator.errors import NotFound
from sagabus_orchestrator.operations import Operations
from sagabus_orchestrator.queries import SagaDetail, SagaReader
from sagabus_orchestrator.redrive import DeadLetters
from sagabus_orchestrator.registry import Registry, TopicCheck
from sagabus_orchestrator.switchboard import Switchboard
from sagabus_orchestrator.tenants import Tenants
from sagabus_orchestrator.why import Gatherer
from sagabus_store import Database

__all__ = ["Backend", "seen_by"]


@dataclass(frozen=True, slots=True)
class Backend:
    """The parts of the orchestrator that HTTP reaches; `stopping` ends what waits or streams."""

    database: Database
    watcher: CatalogWatcher
    authenticator: Authenticator
    trail: Trail
    metrics: ApiMetrics
    shares: Shares
    starter: Starter
    reader: SagaReader
    watch: StatusWatch
    feed: Feed
    operations: Operations
    bulks: Bulks
    switchboard: Switchboard
    registry: Registry
    tenants: Tenants
    pages: FactPages
    letters: Callable[[], DeadLetters]
    gatherer: Callable[[], Gatherer]
    missing_topics: TopicCheck
    stopping: asyncio.Event

    async def saga(self, caller: Principal, saga_id: str) -> SagaDetail:
        """Return a saga without its journal; of another tenant it looks absent (`NotFound`)."""
        return seen_by(caller, await self.reader.head(saga_id))

    def definition_of(self, saga: SagaDetail) -> Definition:
        """Return the definition that a saga runs on. Raises `NotFound`."""
        head = saga.summary
        for scope in (head.tenant, GLOBAL):
            found = self.watcher.current.get(DefinitionRef(scope, head.workflow, head.version))
            if found is not None and found.digest == saga.definition_digest:
                return found
        raise NotFound("not_found", f"the definition {head.workflow} {head.version} is not here")


def seen_by(caller: Principal, saga: SagaDetail) -> SagaDetail:
    """Return a saga that the caller may see; any other looks exactly as if it did not exist."""
    if not caller.sees(saga.summary.tenant):
        raise NotFound("not_found", f"there is no saga {saga.summary.saga_id}")
    return saga
