"""Timer service of sagabus: durable wake-ups."""

__all__: list[str] = []
