"""Settings of the fake card processor."""

from __future__ import annotations

from pydantic import Field

from sagabus_runtime.settings import PostgresSettings

__all__ = ["CardsSettings"]


class CardsSettings(PostgresSettings):
    """Where it keeps its ledger and where it listens."""

    cards_host: str = "127.0.0.1"
    """Address on which the processor listens."""
    cards_port: int = Field(default=8088, ge=0, le=65535)
    """Port on which the processor listens; 0 takes a free one and logs it."""
