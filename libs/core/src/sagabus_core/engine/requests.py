"""The digest of a start request: whether a known business key is asked for the same again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from sagabus_core.canonical import canonical_scalars, sha256_hex
from sagabus_core.engine.events import StartRequest
from sagabus_core.errors import RequestConflict

__all__ = ["RequestDigest", "request_digest"]


@dataclass(frozen=True, slots=True)
class RequestDigest:
    """One SHA-256 per digested field, and one over all of them."""

    digest: str
    fields: Mapping[str, str]

    def differing(self, other: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names of the fields whose digests differ from the stored ones."""
        return tuple(name for name, value in self.fields.items() if other.get(name) != value)

    def check_same(self, stored_digest: str, stored_fields: Mapping[str, str]) -> None:
        """Raise `RequestConflict` that names the differing fields, unless the digests agree."""
        if self.digest != stored_digest:
            named = ", ".join(self.differing(stored_fields)) or "the digest"
            raise RequestConflict(
                "request_conflict",
                f"this business key was started with other content (differs in: {named}): "
                "use another key, or send the same request",
            )


def request_digest(
    request: StartRequest, workflow: str, version: int, definition_digest: str
) -> RequestDigest:
    """Return the digest of a request for one definition.

    For a known key pass the instance's version and digest where the request names none, so that a
    repeat stays equal when a newer version has become active in between.
    """
    payload = request.payload
    values: dict[str, str | int | None] = {
        "tenant": request.tenant,
        "workflow": workflow,
        "definition_version": version,
        "definition_digest": definition_digest,
        "business_key": request.business_key,
        "deadline_at": request.deadline_at_ms,
        "payload_content_type": payload.content_type if payload else None,
        "payload_schema_id": payload.schema_id if payload else None,
        "payload_data": hashlib.sha256(payload.body).hexdigest() if payload else None,
    }
    found = [(name, *_field(name, value)) for name, value in values.items()]
    # An array of pairs of names and digests: its canonical form is theirs, joined.
    pairs = b",".join(pair for _, _, pair in found)
    return RequestDigest(
        sha256_hex(b"[" + pairs + b"]"), {name: digest for name, digest, _ in found}
    )


# Most fields of the requests that come together are the same. `typed`: True must not pass for 1.
@lru_cache(maxsize=1024, typed=True)
def _field(name: str, value: str | int | None) -> tuple[str, bytes]:
    """Return the digest of a field, and its part in the digest of all."""
    digest = sha256_hex(canonical_scalars((name, value)))
    return digest, canonical_scalars((name, digest))
