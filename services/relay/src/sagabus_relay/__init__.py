"""Outbox relay of sagabus: from every outbox table to Kafka."""

__all__: list[str] = []
