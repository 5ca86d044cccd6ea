"""Starts: which key is new, which is a repeat, which is refused, and what is answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import asyncpg

from sagabus_core.definitions import Definition, DefinitionState
from sagabus_core.engine import RequestDigest, Snapshot, request_digest
from sagabus_core.errors import RequestConflict, SagabusError
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import START_REFUSED, Lifecycle, OutboxRow, Stamp, encode
from sagabus_messages.strict_json import dump, load
from sagabus_orchestrator.catalog import Catalog, DefinitionRef
from sagabus_orchestrator.entry import Scene
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.signatures import SOURCE
from sagabus_orchestrator.works import StartWork

__all__ = [
    "Choices",
    "KnownKey",
    "NewKey",
    "StartAnswer",
    "answer_known",
    "inactive",
    "limited",
    "may_start",
    "refusal",
    "repeat_answer",
]


class Choices:
    """What starts get from one catalogue; those that ask for the same are looked up once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._made: dict[tuple[str, str, int | None], DefinitionRef | SagabusError] = {}

    def of(self, work: StartWork) -> DefinitionRef | SagabusError:
        """Return the definition that a start asks for, or why there is none."""
        body = work.body
        asked = (body.tenant, body.workflow, body.definition_version)
        found = self._made.get(asked)
        if found is None:
            found = self._made[asked] = self._chosen(*asked)
        return found

    def all(self, works: Iterable[StartWork]) -> set[DefinitionRef]:
        """Return the definitions that starts ask for, those that there are."""
        chosen = (self.of(work) for work in works)
        return {ref for ref in chosen if isinstance(ref, DefinitionRef)}

    def _chosen(
        self, tenant: str, workflow: str, version: int | None
    ) -> DefinitionRef | SagabusError:
        try:
            return self._catalog.for_start(tenant, workflow, version)
        except SagabusError as error:
            return error


def may_start(work: StartWork, state: DefinitionState | None) -> bool:
    """Say whether the state of the definition that was chosen lets this start begin."""
    if work.body.definition_version is None:
        return state is DefinitionState.ACTIVE
    return state in {DefinitionState.ACTIVE, DefinitionState.DEPRECATED}


@dataclass(frozen=True, slots=True)
class KnownKey:
    """What was started under a key, and where it stands; `revision` None once archived."""

    ref: DefinitionRef
    definition_digest: str
    digest: RequestDigest
    status: SagaStatus
    revision: int | None

    @classmethod
    def of(cls, row: asyncpg.Record, workflow: str) -> KnownKey:
        """Return the key of a row of `known_keys`."""
        return cls(
            DefinitionRef(row["definition_scope"], workflow, row["definition_version"]),
            row["definition_digest"],
            RequestDigest(row["request_digest"], load(row["field_digests"])),
            SagaStatus(row["status"]),
            row["revision"],
        )

    def at(self, saga: Snapshot) -> KnownKey:
        """Return this key with where its saga stands now."""
        return replace(self, status=saga.status, revision=saga.revision)


@dataclass(frozen=True, slots=True)
class NewKey:
    """The key row of a saga that this transaction creates."""

    saga_id: str
    ref: DefinitionRef
    definition_digest: str
    digest: RequestDigest

    @classmethod
    def of(cls, work: StartWork, ref: DefinitionRef, definition: Definition) -> NewKey:
        """Return the key that a start takes with the definition that it gets."""
        digest = _digest(work, ref.version, definition.digest)
        return cls(work.saga_id, ref, definition.digest, digest)

    def known(self, saga: Snapshot) -> KnownKey:
        """Return what a later start of the same key finds."""
        digests = (self.definition_digest, self.digest)
        return KnownKey(self.ref, *digests, saga.status, saga.revision)

    @property
    def field_digests(self) -> bytes:
        """The digests by field, as they are stored."""
        return dump(dict(self.digest.fields))


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """What became of a start: a saga (new, or known before), or the problem that refused it."""

    work: StartWork
    result: KnownKey | SagabusError
    created: bool = False

    def row(self, scene: Scene) -> OutboxRow:
        """Return the lifecycle event that tells it."""
        if isinstance(self.result, KnownKey):
            return repeat_answer(self.work, self.result, scene)
        return refusal(self.work, self.result, scene)


def inactive(ref: DefinitionRef) -> Refused:
    """Return why a version that was chosen may not start."""
    return Refused("definition_inactive", f"{ref.workflow} {ref.version} may not start any more")


def limited(work: StartWork, code: str) -> Refused:
    """Return why a tenant without headroom may not start."""
    return Refused(code, f"tenant {work.body.tenant!r} runs, or starts, as many sagas as it may")


def answer_known(work: StartWork, known: KnownKey) -> StartAnswer:
    """Answer a start whose key was used before: the same request again, or a conflict.

    A request that names no version is compared at the version of the instance.
    """
    version = work.body.definition_version or known.ref.version
    digest = _digest(work, version, known.definition_digest)
    try:
        digest.check_same(known.digest.digest, known.digest.fields)
    except RequestConflict as problem:
        return StartAnswer(work, problem)
    return StartAnswer(work, known)


def _digest(work: StartWork, version: int, definition_digest: str) -> RequestDigest:
    return request_digest(work.request, work.body.workflow, version, definition_digest)


def repeat_answer(work: StartWork, known: KnownKey, scene: Scene) -> OutboxRow:
    """Return the present status of a saga as the answer to a repeated equal start."""
    body = Lifecycle(
        saga_id=work.saga_id,
        tenant=work.body.tenant,
        workflow=work.body.workflow,
        business_key=work.body.business_key,
        status=known.status,
        start_id=work.meta.ce_id,
        definition_version=known.ref.version,
        revision=known.revision,
        occurred_at_ms=scene.now_ms,
    )
    return _answer(work, body, scene)


def refusal(work: StartWork, problem: SagabusError, scene: Scene) -> OutboxRow:
    """Return the lifecycle event that says why a start created nothing."""
    body = Lifecycle(
        saga_id=work.saga_id,
        tenant=work.body.tenant,
        workflow=work.body.workflow,
        business_key=work.body.business_key,
        status=START_REFUSED,
        start_id=work.meta.ce_id,
        reason_code=problem.code,
        occurred_at_ms=scene.now_ms,
    )
    return _answer(work, body, scene)


def _answer(work: StartWork, body: Lifecycle, scene: Scene) -> OutboxRow:
    stamp = Stamp(SOURCE, scene.now_ms, work.meta.traceparent, work.meta.tracestate)
    return encode(body, scene.topics.lifecycle, stamp, start_source=work.meta.source)
