"""Settings of the orchestrator."""

from __future__ import annotations

from pydantic import Field

from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_orchestrator.signatures import RecordSignatureSettings
from sagabus_runtime import KafkaSettings, PostgresSettings

__all__ = ["OrchestratorSettings"]


class OrchestratorSettings(KafkaSettings, PostgresSettings, RecordSignatureSettings):
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
    reconcile_page: int = Field(default=2_000, ge=1, le=10_000)
    """Most sagas that the reconciler looks at in one second."""
    reconcile_interval_ms: int = Field(default=60_000, ge=100, le=86_400_000)
    """Pause between two rounds of the reconciler over all sagas that are not at their end."""
    reconcile_quiet_ms: int = Field(default=60_000, ge=0, le=86_400_000)
    """How long a saga must have stood still before the reconciler asks what would move it."""
    archive_after_days: int = Field(default=30, ge=0, le=3_650)
    """Age (since their last change) at which ended sagas go to the archive; 0: never."""
    archive_interval_ms: int = Field(default=60_000, ge=100, le=86_400_000)
    """Pause of the archive once nothing is old enough."""
    archive_batch: int = Field(default=200, ge=1, le=5_000)
    """Most sagas that one transaction moves to the archive."""
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
