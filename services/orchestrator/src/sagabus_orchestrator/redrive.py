"""What operators do with dead letters: each letter in one transaction, once, with its audit row."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sagabus_core.errors import SagabusError
from sagabus_core.names import MAX_BODY_BYTES
from sagabus_messages import Command, Kind, MessageError, OutboxRow, Record, Topics
from sagabus_orchestrator import letters, rows
from sagabus_orchestrator.audit.trail import Act, By, Trail, record
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.desk import Desk
from sagabus_orchestrator.edits import edited_row, try_decode
from sagabus_orchestrator.entry import Scene
from sagabus_orchestrator.errors import OrphanedInstances, Refused, RivalStart, StaleCatalog
from sagabus_orchestrator.letters import FOREIGN, SQL, Deed, Letter
from sagabus_orchestrator.outcome import Outcome
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_orchestrator.signatures import UNSIGNED, Signatures
from sagabus_orchestrator.works import read_batch
from sagabus_store import Connection, Database, InboxWindow, now_ms, outbox

__all__ = ["DeadLetters", "LetterOutcome"]

APPLIED: Final = frozenset({Kind.START, Kind.RESULT, Kind.WAKEUP})
"""What the orchestrator consumes it applies itself; everything else goes back to its topic."""
KEY_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class LetterOutcome:
    """What was done to a letter; `repeated` if it had been done before under the same id."""

    letter: Letter
    effect: str
    repeated: bool = False


class DeadLetters:
    """Redrives and discards; any number of operators at once."""

    def __init__(
        self,
        database: Database,
        topics: Topics,
        watcher: CatalogWatcher,
        window: InboxWindow,
        mode: RecoveryMode = RecoveryMode.OFF,
        signatures: Signatures = UNSIGNED,
    ) -> None:
        self._database = database
        self._signatures = signatures
        self._mode = mode
        self._topics = topics
        self._watcher = watcher
        self._window_ms = window.days * 86_400_000
        self._assumed: list[str] = []
        self._trail = Trail(database)

    async def perform(self, letter_id: str, deed: Deed, *, dry_run: bool = False) -> LetterOutcome:
        """Do a deed to one letter once; the same operation id again returns the first outcome.

        A dry run does all of it and takes it back. Raises `NotFound` and `Refused`:
        `dead_letter_closed`, `earlier_letter_open` (order within a key), `operation_id_reused`,
        `still_refused`, `command_expired`, `not_redrivable`, and what `edited_row` refuses.
        Nothing is changed then.
        """
        if dry_run:
            return await self._twice(letter_id, deed, dry_run=True)
        try:
            return await self._twice(letter_id, deed, dry_run=False)
        except SagabusError as error:
            if not error.retryable:
                await self._trail.refused(await self._refused_act(letter_id, deed), error)
            raise

    async def _refused_act(self, letter_id: str, deed: Deed) -> Act:
        """Return what was asked for, with whose letter it is about where that can be told."""
        with suppress(SagabusError):
            async with self._database.connection() as conn:
                letter = await letters.find(conn, letter_id)
                return _act(letter, deed, await letters.owner(conn, letter))
        by = By(deed.actor, deed.reason, deed.operation_id)
        return Act(kind=f"dlt:{deed.kind}", by=by, subject=letter_id)

    async def _twice(self, letter_id: str, deed: Deed, *, dry_run: bool) -> LetterOutcome:
        _check(deed)
        try:
            return await self._once(letter_id, deed, dry_run=dry_run)
        except (OrphanedInstances, StaleCatalog, RivalStart):
            await self._watcher.refresh()
            return await self._once(letter_id, deed, dry_run=dry_run)

    async def _once(self, letter_id: str, deed: Deed, *, dry_run: bool) -> LetterOutcome:
        async with self._database.transaction() as conn:
            attempt = conn.transaction()  # a savepoint, to which a dry run goes back
            await attempt.start()
            outcome = await self._perform(conn, letter_id, deed)
            await (attempt.rollback() if dry_run else attempt.commit())
        if dry_run:
            # What comes behind it in the same key would find it redriven.
            self._assumed.append(letter_id)
        return outcome

    async def _perform(self, conn: Connection, letter_id: str, deed: Deed) -> LetterOutcome:
        letter = await letters.find(conn, letter_id)
        # Sagas before everything else, here as in every other transaction: see the desk.
        if letter.saga_id is not None:
            await rows.lock_sagas(conn, [letter.saga_id])
        state = await conn.fetchval(SQL["lock_letter"], letter.id)
        earlier = await self._earlier(conn, letter, deed)
        if earlier is not None:
            return earlier
        if state != "open":
            raise Refused("dead_letter_closed", f"the dead letter is {state} already")
        owner = await letters.owner(conn, letter)
        if deed.kind == "discard":
            effect = "discarded"
        else:
            await self._check_order(conn, letter)
            effect = await self._redrive(conn, letter, deed)
        await letters.close(
            conn, letter, "discarded" if deed.kind == "discard" else "redriven", deed, effect
        )
        await record(conn, _act(letter, deed, owner), effect)
        return LetterOutcome(letter, effect)

    async def _earlier(self, conn: Connection, letter: Letter, deed: Deed) -> LetterOutcome | None:
        done = await conn.fetch(SQL["letter_operations"], deed.operation_id, deed.actor, letter.id)
        if any((row["kind"], row["request"]) != (deed.kind, deed.request) for row in done):
            raise Refused(
                "operation_id_reused",
                f"operation id {deed.operation_id!r} did something else before: choose a new one",
            )
        for row in done:
            if (row["topic"], row["partition"], row["offset"]) == letter.place:
                return LetterOutcome(letter, row["effect"], repeated=True)
        return None

    async def _check_order(self, conn: Connection, letter: Letter) -> None:
        topic, partition, offset = letter.place
        if letter.source.key is None:
            return
        before = await conn.fetchval(
            SQL["earlier_open"], topic, letter.source.key, partition, offset, self._assumed
        )
        if before is not None:
            raise Refused(
                "earlier_letter_open",
                f"{before} of the same key comes before it: redrive or discard that first",
            )

    async def _redrive(self, conn: Connection, letter: Letter, deed: Deed) -> str:
        if letter.kind == FOREIGN:
            raise Refused("not_redrivable", "no consumer of sagabus wrote this record: discard it")
        row, source = None, letter.source
        if deed.edited is not None:
            now = await now_ms(conn)
            row = edited_row(letter, deed.edited, deed.operation_id, self._topics, now)
            if letter.kind == Kind.COMMAND:
                row = self._signed(row, source)
        if letter.kind not in APPLIED:
            return await self._send(conn, letter, row)
        if row is not None:
            source = Record(*letter.place, row.key, row.value, row.headers, 0)
        return await self._apply(conn, source, edited=row is not None)

    def _signed(self, row: OutboxRow, original: Record) -> OutboxRow:
        try:
            return self._signatures.sign_edited(row, original)
        except MessageError as error:
            raise Refused("edit_not_allowed", f"the original command: {error.detail}") from error

    async def _apply(self, conn: Connection, record: Record, *, edited: bool) -> str:
        """Decide a start, result or wake-up as if it came from its topic, with every check."""
        now = await now_ms(conn)
        intake = read_batch(
            [record],
            self._topics,
            now_ms=now,
            window_ms=self._window_ms,
            signatures=self._signatures,
        )
        try:
            scene = Scene(self._topics, 0, signer=self._signatures.signer)
            desk = Desk(conn, scene, self._watcher.current, self._mode)
            outcome = await desk.settle(intake)
        except SagabusError as error:
            if error.retryable:
                raise
            raise Refused("still_refused", f"{error.code}: {error.detail}") from error
        for rejected in outcome.rejected:
            reason = rejected.reason
            raise Refused("still_refused", f"{reason.code}: {reason.detail}")
        if outcome.refused and edited:
            raise Refused("still_refused", "the edited start would be answered START_REFUSED")
        return _told(outcome)

    async def _send(self, conn: Connection, letter: Letter, edited: OutboxRow | None) -> str:
        """Write a record back to its topic, through the outbox, in the order of its key."""
        source = letter.source
        row = edited or OutboxRow(source.topic, source.key, source.headers, source.value)
        if len(row.value or b"") > MAX_BODY_BYTES:
            raise Refused("body_too_large", "the topic takes no record of this size: discard it")
        found = try_decode(source, self._topics)
        if found is not None and isinstance(found.body, Command):
            late_ms = await now_ms(conn) - found.body.expires_at_ms
            if late_ms >= 0:
                raise Refused(
                    "command_expired",
                    f"it expired {late_ms / 1000:.0f} s ago and never starts again: discard it, "
                    "the saga went on by its time-out",
                )
        await outbox.append_locked(conn, [row])
        return f"sent to {row.topic}" + (" as edited" if edited is not None else "")


def _act(letter: Letter, deed: Deed, owner: str | None) -> Act:
    return Act(
        kind=f"dlt:{deed.kind}",
        by=By(deed.actor, deed.reason, deed.operation_id),
        subject=f"{letter.id} {'/'.join(map(str, letter.place))}",
        tenant=owner or "",
        saga_id=letter.saga_id,
    )


def _told(outcome: Outcome) -> str:
    if outcome.repeats:
        return "absorbed: it had been handled before"
    if outcome.deferred:
        return "deferred: the saga is paused and applies it on resume"
    if outcome.early:
        return "kept: it is applied as soon as its command is issued (recovery mode)"
    if outcome.refused:
        return "answered START_REFUSED"
    return "applied" + "".join(_status(outcome))


def _status(outcome: Outcome) -> Iterable[str]:
    for entry in outcome.entries:
        saga = entry.snapshot
        change = "" if entry.changed else ", unchanged"
        yield f": {saga.business_key} is {saga.status}, revision {saga.revision}{change}"


def _check(deed: Deed) -> None:
    for name, value in (("operation id", deed.operation_id), ("actor", deed.actor)):
        if not 1 <= len(value) <= KEY_MAX or not value.isprintable():
            raise Refused(
                "invalid_operation", f"the {name} must be 1 to {KEY_MAX} printable characters"
            )
    if not deed.reason.strip() or len(deed.reason) > 1_000:
        raise Refused("invalid_operation", "give a reason of 1 to 1000 characters")
