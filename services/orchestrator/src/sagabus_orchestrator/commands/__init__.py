"""Commands of `sagabus` that read or change what the orchestrator's database holds."""

__all__: list[str] = []
