"""Settings of the timer."""

from __future__ import annotations

from pydantic import Field

from sagabus_runtime import KafkaSettings, PostgresSettings

__all__ = ["TimerSettings"]

_DAY_MS = 86_400_000


class TimerSettings(KafkaSettings, PostgresSettings):
    """Settings of the timer; SAGABUS_POSTGRES is its own database."""

    timer_group: str = Field(default="sagabus-timer", pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")
    """Consumer group of the wake-up requests; the topic prefix is put before it."""
    timer_window_days: int = Field(default=22, ge=1, le=365)
    """Oldest request that is accepted; must exceed the retention of the request topic and its
    dead letters together."""
    timer_batch: int = Field(default=500, ge=2, le=10_000)
    """Most wake-ups that one transaction fires."""
    timer_outbox_bound: int = Field(default=5_000, ge=1, le=1_000_000)
    """Nothing is fired while this many records wait for the relay."""
    timer_idle_ms: int = Field(default=500, ge=10, le=60_000)
    """Longest sleep before the table is looked at again."""
    timer_gap_ms: int = Field(default=5, ge=1, le=1_000)
    """Least wait between two rounds that were not full."""
    migrate_on_start: bool = True
    """Apply missing migrations at start; switch off where a deployment job does it."""

    @property
    def window_ms(self) -> int:
        """The window in milliseconds."""
        return self.timer_window_days * _DAY_MS

    @property
    def group(self) -> str:
        """The complete name of the consumer group."""
        return f"{self.topic_prefix}{self.timer_group}"
