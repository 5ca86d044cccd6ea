"""The HTTP API of the orchestrator."""

__all__: list[str] = []
