-- One row per saga: what is armed, or the generation that was armed last.

create table wakeup (
    saga_id uuid primary key,
    generation bigint not null,
    due_at_ms bigint,
    requested_at_ms bigint not null
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);
comment on table wakeup is 'Durable wake-ups; a row changes only to a higher generation.';
comment on column wakeup.due_at_ms is
    'Epoch ms UTC; null: fired or disarmed, kept as a tombstone against late older requests.';
comment on column wakeup.requested_at_ms is
    'ce_time of the request; requests older than the window are refused, so a tombstone may go.';

create index wakeup_due on wakeup (due_at_ms) where due_at_ms is not null;
create index wakeup_tombstone on wakeup (requested_at_ms) where due_at_ms is null;

-- The trace of the request that armed a wake-up: what it wakes continues that trace.
alter table wakeup add column traceparent text;
