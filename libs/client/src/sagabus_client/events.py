"""Business events of any service, published through its own outbox in its own transaction."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Final

from sagabus_core.errors import InvalidValue
from sagabus_messages import OutboxRow, format_instant
from sagabus_store import Connection, now_ms, outbox

__all__ = ["BusinessEvent", "publish"]

_RESERVED: Final = re.compile(r"(?:^|\.)sagabus\.")
_MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class BusinessEvent:
    """A CloudEvent 1.0: what happened (`type`, versioned), to what (`subject`, the record key).

    `data` are the bytes of the body, JSON unless `content_type` says otherwise. `id` is unique
    within `source`; the same fact published again keeps its id.
    """

    topic: str
    type: str
    source: str
    subject: str
    data: bytes
    content_type: str = "application/json"
    schema: str | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


async def publish(conn: Connection, event: BusinessEvent) -> None:
    """Write an event to the outbox of `conn`'s database: it is sent exactly if `conn` commits.

    Events of one (topic, subject) are sent in the order of their commits. Call it once per
    transaction and subject. Raises `InvalidValue`: `reserved_topic`, `invalid_field`,
    `body_too_large`.
    """
    _check(event)
    headers = {
        "ce_specversion": "1.0",
        "ce_id": event.id,
        "ce_source": event.source,
        "ce_type": event.type,
        "ce_subject": event.subject,
        "ce_time": format_instant(await now_ms(conn)),
        "ce_dataschema": event.schema,
        "content-type": event.content_type,
    }
    packed = tuple((name, value.encode()) for name, value in headers.items() if value is not None)
    await outbox.append_locked(
        conn, [OutboxRow(event.topic, event.subject.encode(), packed, event.data)]
    )


def _check(event: BusinessEvent) -> None:
    if _RESERVED.search(event.topic):
        raise InvalidValue(
            "reserved_topic", f"{event.topic} belongs to sagabus: business events have their own"
        )
    for name in ("topic", "type", "source", "subject", "id"):
        if not getattr(event, name):
            raise InvalidValue("invalid_field", f"the event needs `{name}`")
    if len(event.data) > _MAX_BYTES:
        raise InvalidValue("body_too_large", f"an event may have {_MAX_BYTES} bytes")
