"""The sagabus command."""

__all__: list[str] = []
