"""Participant SDK of sagabus: business handlers with exactly-once effects."""

__all__: list[str] = []
