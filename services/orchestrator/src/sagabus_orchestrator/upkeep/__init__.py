"""Upkeep of the orchestrator's database: the reconciler, the archive, and their leases."""

__all__: list[str] = []
