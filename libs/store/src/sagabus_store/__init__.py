"""Postgres toolkit of sagabus: migrations, named queries, unit of work, inbox, outbox."""

__all__: list[str] = []
