"""Between the tables and the values of the desk: each function is one statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg

from sagabus_core.definitions import DefinitionState
from sagabus_core.engine import SNAPSHOT_SCHEMA, from_json, to_json
from sagabus_messages import pack_headers
from sagabus_messages.strict_json import dump, load
from sagabus_orchestrator.catalog import Catalog, DefinitionRef
from sagabus_orchestrator.entry import Entry
from sagabus_orchestrator.errors import OrphanedInstances
from sagabus_orchestrator.quotas import Quota, Quotas, Rate
from sagabus_orchestrator.starts import KnownKey, NewKey
from sagabus_orchestrator.works import ResultWork, StartWork
from sagabus_runtime.failpoints import reach
from sagabus_store import Connection, Queries, StoreError

__all__ = [
    "change_quotas",
    "defer",
    "entry_of",
    "instant",
    "keep",
    "known_keys",
    "lock_quotas",
    "lock_sagas",
    "share_definitions",
    "take_keys",
    "write_sagas",
]

SQL = Queries("sagabus_orchestrator", "sql/sagas.sql")


def instant(at_ms: int) -> datetime:
    """Return epoch milliseconds as the aware instant that a timestamptz column takes."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


async def known_keys(conn: Connection, works: Mapping[str, StartWork]) -> dict[str, KnownKey]:
    """Return what is known of the keys of these starts, by saga id."""
    found = await conn.fetch(SQL["known_keys"], list(works))
    await reach("orchestrator.after-known-keys")
    return {str(row["id"]): KnownKey.of(row, works[str(row["id"])].body.workflow) for row in found}


async def lock_sagas(conn: Connection, saga_ids: Sequence[str]) -> list[asyncpg.Record]:
    """Lock sagas in id order; those that do not exist are missing from the answer."""
    found = await conn.fetch(SQL["lock_sagas"], list(saga_ids))
    await reach("orchestrator.after-lock")
    return found


def entry_of(row: asyncpg.Record | Mapping[str, Any], catalog: Catalog) -> Entry:
    """Return a locked row as an entry. Raises `OrphanedInstances`, `SnapshotTooNew`."""
    ref = DefinitionRef(row["definition_scope"], row["workflow"], row["definition_version"])
    definition = catalog.get(ref)
    if definition is None or definition.digest != row["definition_digest"]:
        # Published a moment ago and not yet seen here, or lost: hold the batch, never guess.
        raise OrphanedInstances(
            "definition_missing", f"{ref.workflow} {ref.version} is not loaded on this replica"
        )
    snapshot = from_json(load(row["snapshot"]))
    return Entry(
        scope=ref.scope,
        definition=definition,
        snapshot=snapshot,
        head=row["journal_head"],
        start_id=row["start_id"],
        traceparent=row["traceparent"],
        status_before=snapshot.status,
        created_at=row["created_at"],
    )


async def share_definitions(
    conn: Connection, refs: Iterable[DefinitionRef]
) -> dict[DefinitionRef, DefinitionState]:
    """Hold the states of definitions until the commit: retiring waits for us, or we see it."""
    wanted = sorted(refs, key=lambda ref: (ref.scope, ref.workflow, ref.version))
    found = await conn.fetch(
        SQL["share_definitions"],
        [ref.scope for ref in wanted],
        [ref.workflow for ref in wanted],
        [ref.version for ref in wanted],
    )
    await reach("orchestrator.after-definitions")
    return {
        DefinitionRef(row["scope"], row["workflow"], row["version"]): DefinitionState(row["state"])
        for row in found
    }


async def lock_quotas(conn: Connection, tenants: Iterable[str]) -> Quotas:
    """Lock the limits of these tenants, in tenant order."""
    found = await conn.fetch(SQL["lock_quotas"], sorted(tenants))
    await reach("orchestrator.after-quota-lock")
    rates = {
        (row["tenant"], row["action"]): Rate(
            row["most"], row["window_ms"], row["window_no"], row["used"]
        )
        for row in found
        if row["action"] is not None
    }
    quotas = {r["tenant"]: Quota(r["most"], r["used"]) for r in found if r["action"] is None}
    return Quotas(quotas, rates)


async def change_quotas(conn: Connection, quotas: Quotas, now_ms: int) -> None:
    """Write starts minus terminal transitions, and actions, of tenants that are limited."""
    changes = quotas.changes
    if changes:
        await conn.execute(SQL["change_quotas"], list(changes), list(changes.values()))
        await reach("orchestrator.after-quotas")
    used = list(quotas.used_rates(now_ms))
    if used:
        await conn.execute(
            SQL["use_rates"],
            [rate.tenant for rate in used],
            [rate.action for rate in used],
            [rate.window_no for rate in used],
            [rate.used for rate in used],
        )
        await reach("orchestrator.after-rates")


async def take_keys(conn: Connection, keys: Iterable[NewKey]) -> set[str]:
    """Take keys in id order; returns the ids that were free."""
    wanted = sorted(keys, key=lambda key: key.saga_id)
    found = await conn.fetch(
        SQL["take_keys"],
        [key.saga_id for key in wanted],
        [key.ref.scope for key in wanted],
        [key.ref.version for key in wanted],
        [key.definition_digest for key in wanted],
        [key.digest.digest for key in wanted],
        [key.field_digests for key in wanted],
    )
    await reach("orchestrator.after-keys")
    return {str(row["id"]) for row in found}


async def write_sagas(conn: Connection, entries: Sequence[Entry], now_ms: int) -> None:
    """Write new and changed sagas with their facts."""
    new = [entry for entry in entries if entry.is_new]
    changed = [entry for entry in entries if entry.changed and not entry.is_new]
    if new:
        await _insert(conn, new, now_ms)
        await reach("orchestrator.after-insert")
    if changed:
        await _update(conn, changed, now_ms)
        await reach("orchestrator.after-update")
    if new or changed:
        await _append_journal(conn, [*new, *changed], now_ms)
        await reach("orchestrator.after-journal")


async def _insert(conn: Connection, entries: Sequence[Entry], now_ms: int) -> None:
    ordered = sorted(entries, key=lambda entry: entry.snapshot.saga_id)
    sagas = [entry.snapshot for entry in ordered]
    await conn.execute(
        SQL["insert_sagas"],
        [saga.saga_id for saga in sagas],
        [saga.tenant for saga in sagas],
        [saga.workflow for saga in sagas],
        [saga.business_key for saga in sagas],
        [entry.scope for entry in ordered],
        [saga.definition_version for saga in sagas],
        [saga.definition_digest for saga in sagas],
        [entry.start_id for entry in ordered],
        [entry.traceparent for entry in ordered],
        [saga.status.value for saga in sagas],
        [saga.control.value for saga in sagas],
        [saga.revision for saga in sagas],
        [saga.armed_at_ms for saga in sagas],
        [SNAPSHOT_SCHEMA] * len(sagas),
        [dump(to_json(saga)) for saga in sagas],
        [entry.head for entry in ordered],
        instant(now_ms),
    )


async def _update(conn: Connection, entries: Sequence[Entry], now_ms: int) -> None:
    sagas = [entry.snapshot for entry in entries]
    written = await conn.fetchval(
        SQL["update_sagas"],
        [saga.saga_id for saga in sagas],
        [saga.revision for saga in sagas],
        [saga.status.value for saga in sagas],
        [saga.control.value for saga in sagas],
        [saga.armed_at_ms for saga in sagas],
        [SNAPSHOT_SCHEMA] * len(sagas),
        [dump(to_json(saga)) for saga in sagas],
        [entry.head for entry in entries],
        [entry.traceparent for entry in entries],
        instant(now_ms),
    )
    if written != len(sagas):
        raise StoreError(
            "lost_update", f"{len(sagas) - written} locked sagas were changed by somebody else"
        )


async def _append_journal(conn: Connection, entries: Sequence[Entry], now_ms: int) -> None:
    facts = [(entry.snapshot.saga_id, fact) for entry in entries for fact in entry.facts]
    await conn.execute(
        SQL["append_journal"],
        [saga for saga, _ in facts],
        [fact.revision for _, fact in facts],
        [fact.ordinal for _, fact in facts],
        [fact.fact for _, fact in facts],
        [fact.head for _, fact in facts],
        instant(now_ms),
    )


async def defer(conn: Connection, works: Sequence[ResultWork], now_ms: int) -> None:
    """Keep results of paused sagas for their resume, in order."""
    if works:
        await keep(conn, SQL["defer_messages"], works, now_ms)
        await reach("orchestrator.after-defer")


async def keep(conn: Connection, statement: str, works: Sequence[ResultWork], now_ms: int) -> None:
    """Store results as they came, by the statement of the table in which they wait."""
    records = [work.record for work in works]
    await conn.execute(
        statement,
        [work.saga_id for work in works],
        [record.topic for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [record.key for record in records],
        [pack_headers(record.headers) for record in records],
        [record.value for record in records],
        instant(now_ms),
    )
