"""Fake card processor: an outside system with idempotency keys and bad days."""

__all__: list[str] = []
