"""What a repeated operation is compared by, and how its commands are told. Pure."""

from __future__ import annotations

import hashlib

from sagabus_core.canonical import JsonValue, canonical_bytes, sha256_hex
from sagabus_core.engine import IssueCommand, ManagementEvent, RecordOutcome
from sagabus_core.payload import Payload

__all__ = ["describe", "request_of"]


def request_of(event: ManagementEvent) -> str:
    """Return what a repeated id is compared by: everything asked, but not who explains it how."""
    if not isinstance(event, RecordOutcome):
        return event.kind.value
    attested = event.attestation
    fields = {name: _plain(getattr(attested, name)) for name in attested.__dataclass_fields__}
    digest = sha256_hex(canonical_bytes([type(attested).__name__, fields]))
    return f"{event.kind.value}:{digest}"


def _plain(value: object) -> JsonValue:
    if isinstance(value, Payload):
        digest = hashlib.sha256(value.body).hexdigest()
        return [value.content_type, value.schema_id, digest]
    return value if value is None or isinstance(value, bool) else str(value)


def describe(command: IssueCommand) -> str:
    """Return a command as an outcome tells of it."""
    target = f" of {command.target}" if command.target else ""
    return f"{command.phase}{target} {command.activation} attempt {command.attempt}"
