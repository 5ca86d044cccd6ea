"""Settings of the HTTP API."""

from __future__ import annotations

from pydantic import Field

from sagabus_orchestrator.api.identity import IdentitySettings
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_orchestrator.signatures import RecordSignatureSettings
from sagabus_runtime import KafkaSettings, PostgresSettings

__all__ = ["ApiSettings"]


class ApiSettings(KafkaSettings, PostgresSettings, IdentitySettings, RecordSignatureSettings):
    """Settings of the API; SAGABUS_POSTGRES is the orchestrator's database.

    What both processes read (inbox, recovery mode, closing by hand) must be the same for both.
    """

    api_host: str = "127.0.0.1"
    """Address that the API listens on; 0.0.0.0 where callers come from outside the container."""
    api_port: int = Field(default=8400, ge=0, le=65535)
    """Port of the API; 0 takes a free one and logs it as `api.listening`."""
    api_requests: int = Field(default=2_000, ge=10, le=100_000)
    """Most requests under way, streams and long polls included; more are answered 503."""
    idempotency_days: int = Field(default=30, ge=1, le=365)
    """How long the keys of starts are remembered; a business key never starts twice anyway."""
    inbox_days: int = Field(default=30, ge=1, le=365)
    """How long handled messages are remembered, as for the orchestrator."""
    recovery_mode: RecoveryMode = RecoveryMode.OFF
    """After a restore of the database, as for the orchestrator."""
    migrate_on_start: bool = True
    """Apply missing migrations at start; switch off where a deployment job does it."""
    manual_close_enabled: bool = False
    """Allow the operation `close`; only once every replica knows MANUALLY_CLOSED."""
