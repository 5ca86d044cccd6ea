"""Test kit of sagabus: the local stack with real Kafka and Postgres, fixtures and suites."""

__all__: list[str] = []
