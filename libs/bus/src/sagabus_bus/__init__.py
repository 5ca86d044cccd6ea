"""Kafka edge of sagabus: publisher, batch subscriber, dead letters."""

__all__: list[str] = []
