"""Settings of the relay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_settings import NoDecode

from sagabus_runtime import KafkaSettings, PostgresSettings
from sagabus_runtime.settings import PostgresDsn

__all__ = ["OutboxSource", "RelaySettings"]


class OutboxSource(BaseModel):
    """One outbox table: the name that leases and metrics know it by, and its database."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    dsn: PostgresDsn
    slots: int | None = Field(default=None, ge=1, le=64)

    @property
    def server(self) -> str:
        """The database server, as the DSN spells it, which other outboxes may share."""
        parts = urlsplit(self.dsn.get_secret_value())
        host = parse_qs(parts.query).get("host", [""])[0]
        return parts.netloc.rpartition("@")[2] + host


def _read_sources(value: object) -> object:
    """Accept JSON: an object `name: DSN`, or a list of objects `name`, `dsn`, `slots`."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError('must be JSON, for example {"orders": "postgresql://..."}') from None
    if isinstance(value, Mapping):
        return [{"name": name, "dsn": dsn} for name, dsn in value.items()]
    return value


IDLE_LOOKS_PER_S = 400
TAKEOVER_BOUND_MS = 4_500
"""Leaves half a second of the promised five for the claim, the fence and the first round."""
Sources = Annotated[tuple[OutboxSource, ...], NoDecode, BeforeValidator(_read_sources)]


class RelaySettings(KafkaSettings, PostgresSettings):
    """Settings of the relay; SAGABUS_POSTGRES is its own database, for the leases."""

    outboxes: Sources = Field(min_length=1)
    """Outbox tables, as JSON: {"orders": "postgresql://..."}, or [{"name", "dsn", "slots"}]."""
    relay_delivery: Literal["fenced", "transactional"] = "fenced"
    """`fenced`: the broker shuts out a revived owner, partition by partition, from the first record
    of its successor; `transactional`: everywhere from the takeover on, at five times the price."""
    relay_slots: int = Field(default=1, ge=1, le=64)
    """Slots per outbox where it names none: more let several replicas share one outbox."""
    relay_lease_ms: int = Field(default=3_000, ge=500)
    """Life of a lease; a killed replica is replaced at most a turn of a fifth of it afterwards."""
    relay_lease_margin_ms: int = Field(default=500, ge=50)
    """How much earlier the holder of a lease stops acting."""
    relay_batch_rows: int = Field(default=500, ge=1, le=10_000)
    """Most rows of one round."""
    relay_batch_bytes: int = Field(default=4_000_000, ge=1_000)
    """Bytes after which a round takes no further row."""
    relay_record_bytes: int = Field(default=4_000_000, ge=1_000)
    """Largest record that is ever sent; a larger row parks its key."""
    relay_gap_ms: float = Field(default=5.0, ge=0, le=1_000)
    """Wait between two rounds that were not full: longer means fewer, larger rounds."""
    relay_idle_ms: float = Field(default=20.0, ge=1, le=10_000)
    """Longest wait between two looks at an outbox that has nothing to do; longer with more than
    eight slots, so that all idle slots together take at most 400 looks per second."""
    relay_bell: bool = True
    """Sleep until a writer rings, where an outbox has one slot. Switch off behind a pooler that
    shares sessions between clients: LISTEN needs one of its own."""

    migrate_on_start: bool = True
    """Apply missing migrations at start; switch off where a deployment job does it."""

    @model_validator(mode="after")
    def _is_consistent(self) -> RelaySettings:
        names = [source.name for source in self.outboxes]
        places = [source.dsn.get_secret_value() for source in self.outboxes]
        if len(set(names)) < len(names):
            raise ValueError("SAGABUS_OUTBOXES names an outbox twice")
        if len(set(places)) < len(places):
            raise ValueError("SAGABUS_OUTBOXES lists a database twice: two owners for one table")
        if self.takeover_ms > TAKEOVER_BOUND_MS:
            raise ValueError(
                "SAGABUS_RELAY_LEASE_MS and a turn of the keeper (a fifth of it) must not exceed "
                f"{TAKEOVER_BOUND_MS} ms: nothing of a killed replica's slots flows meanwhile"
            )
        if self.relay_lease_margin_ms * 2 > self.relay_lease_ms:
            raise ValueError("SAGABUS_RELAY_LEASE_MARGIN_MS must be at most half a lease")
        return self

    @property
    def tick_ms(self) -> int:
        """Pause between two turns of the keeper: five of them within a lease."""
        return self.relay_lease_ms // 5

    @property
    def takeover_ms(self) -> int:
        """How long after its owner's last renewal a slot is claimed by another replica."""
        return self.relay_lease_ms + self.tick_ms

    @property
    def idle_ms(self) -> float:
        """Longest wait between two looks at an idle slot."""
        return max(self.relay_idle_ms, sum(self.slots.values()) * 1000 / IDLE_LOOKS_PER_S)

    @property
    def slots(self) -> dict[str, int]:
        """Slots by outbox."""
        return {source.name: source.slots or self.relay_slots for source in self.outboxes}
