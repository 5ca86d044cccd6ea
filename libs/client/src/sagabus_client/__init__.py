"""Client of sagabus: start, read and await sagas."""

__all__: list[str] = []
