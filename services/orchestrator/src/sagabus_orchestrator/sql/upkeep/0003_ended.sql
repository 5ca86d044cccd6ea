-- no transaction
-- What may be old enough for the archive; no column of it changes until a saga ends.
create index concurrently saga_ended on saga ((coalesce(ended_at, created_at)), id)
    where status in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED');
