"""Dead letters, both ways: looked through, redriven, discarded."""

from __future__ import annotations

import os
from typing import Final

from sagabus_cli import (
    MAX_DEEDS,
    Api,
    NotPermitted,
    Progress,
    UsageError,
    actor,
    current_connection,
)
from sagabus_core.canonical import sha256_hex
from sagabus_core.errors import SagabusError
from sagabus_expressions import CelConditions
from sagabus_messages.topics import DEAD_LETTER_RETENTION_MS, RETENTION_MS
from sagabus_orchestrator import letters
from sagabus_orchestrator.api.letter_pages import read_letter, read_page
from sagabus_orchestrator.api.models.letters import DeedAnswer, LetterAnswer
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.commands.office.ports import DeedDone, Document, LetterOrder
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.config import OrchestratorSettings
from sagabus_orchestrator.letters import Deed, LetterFilter, letter_id_of
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_orchestrator.redrive import DeadLetters
from sagabus_orchestrator.signatures import RecordSignatureSettings, Signatures
from sagabus_runtime import load as load_settings
from sagabus_store import Database, InboxWindow

__all__ = ["DirectLetters", "RemoteLetters"]

_PLACE: Final = "/v1/dead-letters"


class DirectLetters:
    """Works on the database, with the settings of the service as this environment has them."""

    def letters(self, wanted: LetterFilter, limit: int, cursor: str | None) -> Document:
        """Return a page of letters."""

        async def work(database: Database) -> Document:
            tenants = None if wanted.tenant is None else [wanted.tenant]
            page = await read_page(database, wanted, limit, cursor, tenants)
            return page.model_dump(mode="json")

        return with_database(work)

    def letter(self, name: str) -> Document:
        """Return one letter."""

        async def work(database: Database) -> Document:
            return (await read_letter(database, letter_id_of(name))).model_dump(mode="json")

        return with_database(work)

    def handle(self, order: LetterOrder) -> list[DeedDone]:
        """Redrive or discard letters, one after another."""
        deed, topics = _deed(order), current_connection().topics
        window, mode = _window(), _mode()
        signatures = Signatures.of(load_settings(RecordSignatureSettings))

        async def one(desk: DeadLetters, letter: Document) -> DeedDone:
            try:
                done = await desk.perform(letter["id"], deed, dry_run=order.dry_run)
            except SagabusError as error:
                return letter, _told(error)
            answer = DeedAnswer.of(done, deed.operation_id, dry_run=order.dry_run)
            return letter, answer.model_dump(mode="json")

        async def work(database: Database) -> list[DeedDone]:
            watcher = CatalogWatcher(database, CelConditions())
            await watcher.refresh()
            async with database.connection() as conn:
                ids = [letter_id_of(name) for name in order.names]
                found = [await letters.find(conn, each) for each in ids]
                if order.wanted is not None:
                    found = await letters.listed(conn, order.wanted, MAX_DEEDS)
            desk = DeadLetters(database, topics, watcher, window, mode, signatures)
            told = [LetterAnswer.of(letter).model_dump(mode="json") for letter in found]
            progress = Progress("letters")
            handled = []
            for letter in sorted(told, key=_by_place):
                handled.append(await one(desk, letter))
                progress.advance()
            return handled

        return with_database(work)


class RemoteLetters:
    """Asks the API: one request for each letter, in the same order."""

    _api: Api

    def letters(self, wanted: LetterFilter, limit: int, cursor: str | None) -> Document:
        """Return a page of letters."""
        asked = {
            "state": wanted.state or "any",
            "topic": wanted.topic,
            "code": wanted.code,
            "kind": wanted.kind,
            "saga_id": wanted.saga,
            "tenant": wanted.tenant,
            "limit": limit,
            "cursor": cursor,
        }
        return self._api.get(_PLACE, asked)

    def letter(self, name: str) -> Document:
        """Return one letter."""
        return self._api.get(f"{_PLACE}/{letter_id_of(name)}")

    def handle(self, order: LetterOrder) -> list[DeedDone]:
        """Redrive or discard letters, one after another."""
        body: Document = {
            "reason": order.reason,
            "operation_id": order.operation_id,
            "dry_run": order.dry_run,
        }
        if order.edited is not None:
            body["edited_body"] = _text(order.edited)
        found = [self.letter(name) for name in order.names]
        if order.wanted is not None:
            found = self.letters(order.wanted, MAX_DEEDS, None)["dead_letters"]
        progress = Progress("letters")
        handled: list[DeedDone] = []
        for letter in sorted(found, key=_by_place):
            handled.append((letter, self._one(letter, order.kind, body)))
            progress.advance()
        return handled

    def _one(self, letter: Document, kind: str, body: Document) -> Document | SagabusError:
        try:
            return self._api.post(f"{_PLACE}/{letter['id']}/{kind}", body)
        except SagabusError as error:
            return _told(error)


def _told(error: SagabusError) -> SagabusError:
    """Return an error of one letter: it does not stop those of other keys. Raises all others."""
    if error.retryable or isinstance(error, NotPermitted):
        raise error
    return error


def _by_place(letter: Document) -> tuple[str, int, int]:
    return (letter["topic"], letter["partition"], letter["offset"])


def _deed(order: LetterOrder) -> Deed:
    edited = order.edited
    request = order.kind if edited is None else f"{order.kind}:{sha256_hex(edited)}"
    return Deed(order.kind, order.operation_id, actor(), order.reason, request, edited)


def _text(edited: bytes) -> str:
    try:
        return edited.decode()
    except UnicodeDecodeError as cause:
        raise UsageError("usage", "--edit takes a JSON file in UTF-8") from cause


def _window() -> InboxWindow:
    """Return the window of the service, as its settings say."""
    default = OrchestratorSettings.model_fields["inbox_days"].default
    window = InboxWindow(int(os.environ.get("SAGABUS_INBOX_DAYS", default)))
    window.require_covers(RETENTION_MS, DEAD_LETTER_RETENTION_MS)
    return window


def _mode() -> RecoveryMode:
    """Return the mode of the service, as its settings say: what it keeps is kept here too."""
    named = os.environ.get("SAGABUS_RECOVERY_MODE", RecoveryMode.OFF)
    try:
        return RecoveryMode(named)
    except ValueError as cause:
        raise UsageError(
            "usage", f"SAGABUS_RECOVERY_MODE is {', '.join(RecoveryMode)}, not {named!r}"
        ) from cause
