"""Orchestrator of sagabus: decides what every saga does next."""

__all__: list[str] = []
