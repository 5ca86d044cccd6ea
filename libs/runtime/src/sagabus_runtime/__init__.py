"""Settings, structured logs, telemetry, health, lifecycle and failpoints of sagabus services."""

__all__: list[str] = []
