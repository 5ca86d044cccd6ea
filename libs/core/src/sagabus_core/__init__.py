"""Pure domain core of sagabus: definitions, engine, ids, digests, errors."""

__all__: list[str] = []
