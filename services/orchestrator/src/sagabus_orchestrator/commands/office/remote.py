"""Answers of the HTTP API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from sagabus_cli import Api, UsageError
from sagabus_client import Followed
from sagabus_core.engine import OperationKind
from sagabus_expressions import CelConditions
from sagabus_messages.strict_json import dump
from sagabus_orchestrator.api.attestations import question_of
from sagabus_orchestrator.catalog import DefinitionRef
from sagabus_orchestrator.commands.attestations import read_attestation
from sagabus_orchestrator.commands.office.bulk import RemoteBulk
from sagabus_orchestrator.commands.office.evidence import RemoteEvidence
from sagabus_orchestrator.commands.office.keys import RemoteKeys
from sagabus_orchestrator.commands.office.letters import RemoteLetters
from sagabus_orchestrator.commands.office.limits import RemoteLimits
from sagabus_orchestrator.commands.office.news import listen
from sagabus_orchestrator.commands.office.ports import (
    Document,
    Listing,
    Order,
    Outages,
    SagaName,
    Steering,
)
from sagabus_orchestrator.commands.office.switches import RemoteSwitches
from sagabus_orchestrator.registry import parse_document

__all__ = ["RemoteOffice"]

_SAGA_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LONG_POLL_S: Final = 10
_FACTS_PAGE: Final = 1_000
_PATHS: Final = {
    OperationKind.MANUAL_CLOSE: "close",
    OperationKind.RECORD_OUTCOME: "record-outcome",
}


class RemoteOffice(
    RemoteEvidence, RemoteLimits, RemoteLetters, RemoteBulk, RemoteSwitches, RemoteKeys
):
    """Asks the API; the audit names the caller of its key or token."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def sagas(self, wanted: Listing) -> Document:
        """Return a page of sagas."""
        return self._api.get(
            "/v1/sagas",
            {
                "tenant": wanted.tenant,
                "workflow": wanted.workflow,
                "status": [status.value for status in wanted.statuses],
                "key_prefix": wanted.key_prefix,
                "archived": wanted.archived,
                "limit": wanted.limit,
                "cursor": wanted.cursor,
            },
        )

    def news(self, wanted: Listing, outages: Outages) -> Iterator[None]:
        """Yield on every change of status in tenant and workflow; what else changes comes later.

        A saga that leaves the statuses that are listed is news as well, so they are not filtered.
        """
        return listen(self._api.address, Followed(wanted.tenant, wanted.workflow), outages)

    def saga(self, name: SagaName) -> Document:
        """Return a saga with its journal up to the same revision."""
        saga = self._head(name)
        return {**saga, "journal": self._journal(saga)}

    def await_change(self, saga_id: str, revision: int) -> None:
        """Ask by a long poll."""
        asked = {"timeout_ms": _LONG_POLL_S * 1_000, "after_revision": revision}
        self._api.get(f"/v1/sagas/{saga_id}/outcome", asked, wait_s=_LONG_POLL_S)

    def why(self, name: SagaName, groups: Sequence[str] | None) -> Document:
        """Return what a saga waits for."""
        if groups:
            raise UsageError("usage", "--group goes with --direct: the API knows its groups")
        return self._api.get(f"/v1/sagas/{self._id(name)}/why")

    def operate(self, name: SagaName, order: Order) -> Document:
        """Do an operation, once per operation id."""
        body: Document = {
            "reason": order.reason,
            "operation_id": order.operation_id,
            "dry_run": order.dry_run,
        }
        if order.expected_revision is not None:
            body["expected_revision"] = order.expected_revision
        saga_id = self._id(name)
        if order.attest is not None:
            body["attestation"] = self._attestation(saga_id, order.attest)
            body["evidence"] = order.evidence
        path = _PATHS.get(order.kind, order.kind.value)
        return self._api.post(f"/v1/sagas/{saga_id}/{path}", body)

    def definitions(self) -> Document:
        """Return what is published."""
        return self._api.get("/v1/definitions")

    def definition(self, ref: DefinitionRef) -> Document:
        """Return a published definition."""
        return self._api.get(_place(ref), {"tenant": ref.scope or None})

    def publish(self, raw: bytes, reason: str) -> Document:
        """Publish a draft; the API takes no reason for a draft."""
        del reason
        return self._api.post_raw("/v1/definitions", raw)

    def steer(self, verb: Steering, ref: DefinitionRef, reason: str) -> Document:
        """Change the state of a definition."""
        body = {"tenant": ref.scope or None, "reason": reason}
        return self._api.post(f"{_place(ref)}/{verb}", body)

    def _head(self, name: SagaName) -> Document:
        if _SAGA_ID.fullmatch(name.text):
            saga = self._api.get(f"/v1/sagas/{name.text}")
            if name.tenant in {None, saga["tenant"]} and name.workflow in {None, saga["workflow"]}:
                return saga
        asked = {"business_key": name.text, "tenant": name.tenant, "workflow": name.workflow}
        return self._api.get("/v1/saga-by-key", asked)

    def _id(self, name: SagaName) -> str:
        return str(self._head(name)["saga_id"])

    def _journal(self, saga: Document) -> list[Document]:
        facts: list[Document] = []
        cursor: str | None = None
        while True:
            asked = {"limit": _FACTS_PAGE, "cursor": cursor}
            page = self._api.get(f"/v1/sagas/{saga['saga_id']}/journal", asked)
            facts += [
                {"revision": each["revision"], "ordinal": each["ordinal"], **each["fact"]}
                for each in page["facts"]
                # It may have moved on since its head was read.
                if each["revision"] <= saga["revision"]
            ]
            cursor = page["next_cursor"]
            if cursor is None:
                return facts

    def _attestation(self, saga_id: str, text: str) -> Document:
        """Return what is attested; payloads take the contract of the saga's own definition."""
        saga = self._api.get(f"/v1/sagas/{saga_id}")
        ref = DefinitionRef(saga["tenant"], saga["workflow"], saga["definition_version"])
        listed = self.definitions()["definitions"]
        owner = next(
            (d["tenant"] for d in listed if d["digest"] == saga["definition_digest"]), None
        )
        found = self.definition(DefinitionRef(owner or "", ref.workflow, ref.version))
        definition = parse_document(dump(found["document"]), CelConditions())
        return question_of(read_attestation(text, definition))


def _place(ref: DefinitionRef) -> str:
    return f"/v1/definitions/{quote(ref.workflow, safe='')}/{ref.version}"
