"""The definition registry: publish, activate, deprecate, retire. Each change is one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import asyncpg

from sagabus_core.canonical import JsonValue, canonical_bytes
from sagabus_core.definitions import Conditions, Definition, DefinitionState, parse_definition
from sagabus_core.errors import SagabusError
from sagabus_messages import Topics, parse_strict
from sagabus_orchestrator.audit.acts import definition_act
from sagabus_orchestrator.audit.trail import LOCAL, Act, By, Trail, record
from sagabus_orchestrator.catalog import GLOBAL, SQL, DefinitionRef
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_store import Connection, Database

__all__ = ["Published", "Registry", "TopicCheck", "parse_document"]

TopicCheck = Callable[[Iterable[str]], Awaitable[Iterable[str]]]
"""Returns those of the given topics that do not exist."""

MAX_DOCUMENT_BYTES: Final = 256 * 1024

_MOVES: Final[Mapping[DefinitionState, frozenset[DefinitionState]]] = {
    DefinitionState.ACTIVE: frozenset(
        {DefinitionState.DRAFT, DefinitionState.ACTIVE, DefinitionState.DEPRECATED}
    ),
    DefinitionState.DEPRECATED: frozenset({DefinitionState.ACTIVE, DefinitionState.DEPRECATED}),
    DefinitionState.RETIRED: frozenset(DefinitionState),
}
"""To each state, the states it can be reached from; a retired version never comes back."""


@dataclass(frozen=True, slots=True)
class Published:
    """A published definition with its state."""

    ref: DefinitionRef
    digest: str
    state: DefinitionState
    document: bytes

    @classmethod
    def of(cls, row: asyncpg.Record) -> Published:
        """Return a row of the table."""
        ref = DefinitionRef(row["scope"], row["workflow"], row["version"])
        return cls(ref, row["digest"], DefinitionState(row["state"]), row["document"])


def parse_document(raw: bytes, conditions: Conditions) -> Definition:
    """Return a valid definition, or raise: `InvalidDefinition` names every problem at once."""
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise Refused("definition_too_large", f"a definition may have {MAX_DOCUMENT_BYTES} bytes")
    document = parse_strict(raw)
    return parse_definition(document, conditions)


class Registry:
    """Changes definitions; replicas notice by the generation, without a restart.

    The audit tells of every change and of every refusal; what changes nothing leaves no row.
    """

    def __init__(self, database: Database, conditions: Conditions, topics: Topics) -> None:
        self._database = database
        self._conditions = conditions
        self._topics = topics
        self._trail = Trail(database)

    def parse(self, raw: bytes) -> Definition:
        """Return a valid definition, or raise: `InvalidDefinition` names every problem at once."""
        return parse_document(raw, self._conditions)

    async def publish(self, raw: bytes, by: By = LOCAL) -> Published:
        """Add a definition as DRAFT; publishing the same content again changes nothing.

        Raises `Refused` (`definition_conflict`) if the version exists with other content.
        """
        async with self._trail.refusals_of(_claimed_act(raw, by)):
            definition = self.parse(raw)
        ref = DefinitionRef(definition.tenant or GLOBAL, definition.workflow, definition.version)
        document = canonical_bytes(_plain(definition.document))
        fresh = Published(ref, definition.digest, DefinitionState.DRAFT, document)
        async with self._trail.refusals_of(definition_act("publish", ref, by)):
            return await self._publish(fresh, by)

    async def _publish(self, fresh: Published, by: By) -> Published:
        ref = fresh.ref
        async with self._database.transaction() as conn:
            await conn.fetchval(SQL["next_generation"])
            known = await self._find(conn, ref)
            if known is None:
                values = (ref.scope, ref.workflow, ref.version, fresh.digest, fresh.document)
                await conn.execute(SQL["publish_definition"], *values)
                await record(conn, definition_act("publish", ref, by), f"digest {fresh.digest}")
                return fresh
        if known.digest != fresh.digest:
            raise Refused(
                "definition_conflict",
                f"{ref.workflow} {ref.version} is published with other content: "
                "a published version never changes, give the new content a new version",
            )
        return known

    async def activate(
        self, ref: DefinitionRef, missing_topics: TopicCheck, by: By = LOCAL
    ) -> Published:
        """Let starts use a version. Refused (`topics_missing`) until its topics exist.

        The `.dlt` topics too: the orchestrator reads them, and is not ready without.
        """
        act = definition_act("activate", ref, by)
        async with self._trail.refusals_of(act):
            await self._require_topics(await self.get(ref), missing_topics)
            return await self._move(ref, DefinitionState.ACTIVE, act)

    async def deprecate(self, ref: DefinitionRef, by: By = LOCAL) -> Published:
        """Let only those starts use a version that name it."""
        act = definition_act("deprecate", ref, by)
        async with self._trail.refusals_of(act):
            return await self._move(ref, DefinitionState.DEPRECATED, act)

    async def retire(self, ref: DefinitionRef, by: By = LOCAL) -> Published:
        """Let no start use a version. Refused (`definition_in_use`) while instances run on it."""
        act = definition_act("retire", ref, by)
        async with self._trail.refusals_of(act):
            return await self._move(ref, DefinitionState.RETIRED, act)

    async def get(self, ref: DefinitionRef) -> Published:
        """Return a published definition, or raise `NotFound`."""
        async with self._database.transaction() as conn:
            found = await self._find(conn, ref)
        if found is None:
            raise NotFound("not_found", f"no definition {ref.workflow} {ref.version} is published")
        return found

    async def list(self) -> list[Published]:
        """Return everything that was published, by scope, workflow and version."""
        async with self._database.connection() as conn:
            found = await conn.fetch(SQL["all_definitions"])
        listed = [Published.of(row) for row in found]
        return sorted(listed, key=lambda p: (p.ref.workflow, p.ref.scope, p.ref.version))

    async def _require_topics(self, published: Published, missing_topics: TopicCheck) -> None:
        catalogue = self._topics.catalogue(self.parse(published.document).participants)
        wanted = [spec.name for spec in catalogue if spec.participant is not None]
        missing = list(await missing_topics(wanted))
        if missing:
            raise Refused(
                "topics_missing", f"create these topics first: {', '.join(sorted(missing))}"
            )

    async def _move(self, ref: DefinitionRef, state: DefinitionState, act: Act) -> Published:
        async with self._database.transaction() as conn:
            # The exclusive lock of this row comes before the count: a start holds it shared until
            # its commit, so that no instance can slip in between counting and retiring.
            await conn.fetchval(SQL["next_generation"])
            found = await self._find(conn, ref)
            if found is None:
                raise NotFound("not_found", f"no definition {ref.workflow} {ref.version}")
            if found.state not in _MOVES[state]:
                raise Refused(
                    "precondition_failed", f"a {found.state} version cannot become {state}"
                )
            if state is DefinitionState.RETIRED:
                await self._require_unused(conn, ref)
            await conn.execute(
                SQL["change_state"], ref.scope, ref.workflow, ref.version, state.value
            )
            if found.state is not state:
                await record(conn, act, f"{found.state} to {state}")
        return Published(ref, found.digest, state, found.document)

    async def _require_unused(self, conn: Connection, ref: DefinitionRef) -> None:
        running = await conn.fetchval(
            SQL["count_open_instances"], ref.scope, ref.workflow, ref.version
        )
        if running:
            raise Refused("definition_in_use", f"{running} sagas still run on this version")

    async def _find(self, conn: Connection, ref: DefinitionRef) -> Published | None:
        row = await conn.fetchrow(SQL["find_definition"], ref.scope, ref.workflow, ref.version)
        return Published.of(row) if row is not None else None


def _claimed_act(raw: bytes, by: By) -> Act:
    """Return what somebody asks for with a document, however wrong that is."""
    try:
        document = parse_strict(raw[: MAX_DOCUMENT_BYTES + 1])
    except SagabusError:
        document = None
    told = document if isinstance(document, dict) else {}
    names = {name: value for name, value in told.items() if isinstance(value, str)}
    subject = f"{names.get('workflow', 'unreadable')} {told.get('version', '')}".strip()
    return Act(
        kind="definition:publish",
        by=by,
        subject=subject,
        tenant=names.get("tenant", GLOBAL),
        workflow=names.get("workflow", ""),
    )


def _plain(document: Mapping[str, JsonValue]) -> JsonValue:
    return dict(document)
