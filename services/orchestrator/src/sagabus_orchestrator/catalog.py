"""The published definitions as one immutable snapshot, and the loop that keeps it fresh."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import asyncpg

from sagabus_core.definitions import (
    Conditions,
    Definition,
    DefinitionKey,
    DefinitionState,
    InvalidDefinition,
    parse_definition,
    select_for_start,
)
from sagabus_messages import Result, parse_strict
from sagabus_orchestrator.errors import OrphanedInstances
from sagabus_runtime import Pulse
from sagabus_store import Database, Queries

__all__ = ["GLOBAL", "Catalog", "CatalogWatcher", "DefinitionRef", "load_catalog"]

GLOBAL: Final = ""
"""Scope of definitions that belong to every tenant."""

SQL = Queries("sagabus_orchestrator", "sql/registry.sql")


@dataclass(frozen=True, slots=True)
class DefinitionRef:
    """Which published document: scope '' is global, else the tenant that owns it."""

    scope: str
    workflow: str
    version: int


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every published definition at one generation; a draft has a key, but is not read yet."""

    generation: int = -1
    definitions: Mapping[DefinitionRef, Definition] = field(default_factory=dict)
    keys: Mapping[str, tuple[DefinitionKey, ...]] = field(default_factory=dict)

    def for_start(self, tenant: str, workflow: str, version: int | None) -> DefinitionRef:
        """Return what a start gets. Raises `DefinitionUnknown`, `DefinitionInactive`."""
        key = select_for_start(self.keys.get(workflow, ()), tenant, workflow, version)
        return DefinitionRef(key.tenant or GLOBAL, key.workflow, key.version)

    def get(self, ref: DefinitionRef) -> Definition | None:
        """Return a definition that is or was in use."""
        return self.definitions.get(ref)

    def of_result(self, body: Result) -> Definition | None:
        """Return the definition that a result says its saga runs on, if it is known here."""
        for scope in (body.tenant, GLOBAL):
            found = self.get(DefinitionRef(scope, body.workflow, body.definition_version))
            if found is not None and found.digest == body.definition_digest:
                return found
        return None

    @property
    def participants(self) -> frozenset[str]:
        """Whose results this orchestrator must read: of every definition that is in use.

        Not of drafts: their topics may not exist yet, and a missing topic holds the consumer.
        """
        return frozenset(
            participant
            for keys in self.keys.values()
            for key in keys
            if key.state in {DefinitionState.ACTIVE, DefinitionState.DEPRECATED}
            for participant in self.definitions[
                DefinitionRef(key.tenant or GLOBAL, key.workflow, key.version)
            ].participants
        )


async def load_catalog(database: Database, conditions: Conditions, known: Catalog) -> Catalog:
    """Return the present catalogue; `known` itself if its generation is still the present one.

    Raises `OrphanedInstances` if a running saga needs a definition that is missing or differs:
    then this replica must not decide anything.
    """
    async with database.transaction(isolation="repeatable_read") as conn:
        generation = int(await conn.fetchval(SQL["generation"]))
        if generation == known.generation:
            return known
        rows = await conn.fetch(SQL["all_definitions"])
        orphans = await conn.fetch(SQL["orphaned_instances"])
    if orphans:
        names = ", ".join(f"{o['workflow']} {o['version']}" for o in orphans)
        raise OrphanedInstances(
            "definition_missing", f"running sagas need definitions that are not here: {names}"
        )
    definitions: dict[DefinitionRef, Definition] = {}
    keys: dict[str, list[DefinitionKey]] = {}
    for row in rows:
        ref = DefinitionRef(row["scope"], row["workflow"], row["version"])
        if row["state"] != DefinitionState.DRAFT:
            # Published documents never change: what was parsed once is kept.
            definitions[ref] = known.definitions.get(ref) or _parse(row, conditions)
        key = DefinitionKey(
            ref.scope or None, ref.workflow, ref.version, DefinitionState(row["state"])
        )
        keys.setdefault(ref.workflow, []).append(key)
    return Catalog(generation, definitions, {name: tuple(k) for name, k in keys.items()})


def _parse(row: asyncpg.Record, conditions: Conditions) -> Definition:
    try:
        return parse_definition(parse_strict(row["document"]), conditions)
    except InvalidDefinition as error:
        # Checked when it was published: a newer release knows more than this replica does.
        raise OrphanedInstances(
            "definition_unreadable",
            f"this replica is too old to read {row['workflow']} {row['version']}: replace it",
        ) from error


class CatalogWatcher:
    """Holds the present catalogue and looks for a newer one twice a second."""

    INTERVAL_MS: Final = 500

    def __init__(self, database: Database, conditions: Conditions) -> None:
        self._database = database
        self._conditions = conditions
        self._problem: str | None = "the definitions are not loaded yet"
        self._loading = asyncio.Lock()
        self.current = Catalog()
        self.changed = asyncio.Event()
        """Set whenever another catalogue became current; whoever waits for it clears it."""

    async def refresh(self) -> None:
        """Load what was published since; keeps the old catalogue if the new one cannot be used."""
        # One at a time: a slow load of an old generation must not replace a newer one.
        async with self._loading:
            try:
                fresh = await load_catalog(self._database, self._conditions, self.current)
            except OrphanedInstances as error:
                self._problem = error.detail
                raise
            self._problem = None
            if fresh is not self.current:
                self.current = fresh
                self.changed.set()

    async def run(self, pulse: Pulse) -> None:
        """Refresh until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            await self.refresh()
            pulse.beat()
            await pulse.pause(self.INTERVAL_MS)

    async def problem(self) -> str | None:
        """Return why nothing can be decided, or None: a readiness check."""
        return self._problem
