"""Settings of the orchestrator."""

from __future__ import annotations

from pydantic import Field

from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_runtime import KafkaSettings, PostgresSettings

__all__ = ["OrchestratorSettings"]


class OrchestratorSettings(KafkaSettings, PostgresSettings):
    """Settings of the orchestrator; SAGABUS_POSTGRES is its own database."""

    orchestrator_group: str = Field(
        default="sagabus-orchestrator", pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$"
    )
    """Consumer group of starts, results and wake-ups; the topic prefix is put before it."""
    inbox_days: int = Field(default=30, ge=1, le=365)
    """How long handled messages are remembered; must exceed topic retention plus redrive age."""
    batch: int = Field(default=500, ge=1, le=5_000)
    """Most records that one transaction decides."""
    sweep_interval_ms: int = Field(default=1_000, ge=50, le=60_000)
    """How often overdue instances are looked for."""
    sweep_grace_ms: int = Field(default=3_000, ge=0, le=600_000)
    """How late a wake-up may be before the sweep decides in its place."""
    recovery_mode: RecoveryMode = RecoveryMode.OFF
    """After a restore of the database: `replay`, later `settle`, then `off` again; see README."""
    migrate_on_start: bool = True
    """Apply missing migrations at start; switch off where a deployment job does it."""
    manual_close_enabled: bool = False
    """Allow the operation `close`; only once every replica knows MANUALLY_CLOSED."""

    @property
    def group(self) -> str:
        """The complete name of the consumer group."""
        return f"{self.topic_prefix}{self.orchestrator_group}"
