"""Commands of `sagabus` that read or change the outboxes of services."""

__all__: list[str] = []
