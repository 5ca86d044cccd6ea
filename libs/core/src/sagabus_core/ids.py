"""Derived identities: UUIDv5 over canonical JSON arrays in one published namespace.

Every party derives the same id from the same facts, so nobody needs to be asked for one, and a
message whose ids do not re-derive is a forgery or a bug. Arrays, not joined text: a separator
inside a name can never make two different things equal.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final
from uuid import UUID

from sagabus_core.canonical import canonical_scalars
from sagabus_core.vocabulary import Phase

__all__ = [
    "NAMESPACE",
    "command_id",
    "dead_letter_id",
    "effect_id",
    "lifecycle_id",
    "redrive_id",
    "result_event_id",
    "saga_id",
    "shard_of",
    "start_answer_id",
    "trigger_id",
    "wakeup_id",
    "wakeup_request_id",
]

NAMESPACE: Final = UUID("88955dde-e4bc-4f71-8e6c-e60f4282c3be")
"""The published namespace of every derived id of sagabus; it never changes."""

_NAMESPACE_BYTES = NAMESPACE.bytes
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

SHARDS: Final = 64
"""Number of outbox shards; fixed for the life of every outbox table."""


def _derive(*parts: str | int | None) -> str:
    # uuid5 by hand: several ids per message are derived, and the UUID object was half of the price.
    data = _NAMESPACE_BYTES + canonical_scalars(parts)
    h = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    return f"{h[:8]}-{h[8:12]}-5{h[13:16]}-{_VARIANT[h[16]]}{h[17:20]}-{h[20:32]}"


# What is derived when a command is issued is derived again to verify its answer, soon after. A
# cache of the public functions would hide their types; `typed`: True must not pass for 1.
_derive_again = lru_cache(maxsize=24_576, typed=True)(_derive)


def saga_id(tenant: str, workflow: str, business_key: str) -> str:
    """Return the id of the one saga of a business key."""
    return _derive_again("saga", tenant, workflow, business_key)


def effect_id(
    saga: str, definition_version: int, path: str, phase: Phase, target: Phase | None
) -> str:
    """Return the idempotency key of a real-world effect, shared by all of its attempts.

    `target` is the phase that a RESOLVE asks about, null for every other phase.
    """
    return _derive_again(
        "effect", saga, definition_version, path, phase.value, target.value if target else None
    )


def command_id(effect: str, attempt: int) -> str:
    """Return the id of one attempt at an effect; also the ce_id of its record."""
    return _derive_again("command", effect, attempt)


def wakeup_request_id(saga: str, generation: int) -> str:
    """Return the ce_id of the request that arms (or disarms) this generation."""
    return _derive("wakeup.request", saga, generation)


def wakeup_id(saga: str, generation: int) -> str:
    """Return the ce_id of the wake-up of this generation."""
    return _derive("wakeup", saga, generation)


def lifecycle_id(saga: str, revision: int) -> str:
    """Return the ce_id of the lifecycle event of this snapshot revision."""
    return _derive("lifecycle", saga, revision)


def start_answer_id(start_source: str, start_id: str) -> str:
    """Return the ce_id of the answer to a refused or repeated start record."""
    return _derive("start-answer", start_source, start_id)


def dead_letter_id(topic: str, partition: int, offset: int) -> str:
    """Return the id of a dead letter; the same source record always derives the same id."""
    return _derive("dead-letter", topic, partition, offset)


def redrive_id(original: str, operation: str) -> str:
    """Return the new ce_id of a command (by its command_id) that an operation edited and redrove.

    The same operation again derives the same id, so repeating a redrive repeats a record.
    """
    return _derive("redrive", original, operation)


def trigger_id(cause: str, ordinal: int) -> str:
    """Return the trigger id of a further transition in the transaction that `cause` began."""
    return _derive("trigger", cause, ordinal)


def result_event_id(command: str, ordinal: int) -> str:
    """Return the event id of a participant's answer number `ordinal` (from 1) to a command."""
    return _derive("result", command, ordinal)


def shard_of(key: bytes | None) -> int:
    """Return the outbox shard (0 to 63) of a record key; records without a key share shard 0."""
    if key is None:
        return 0
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % SHARDS
