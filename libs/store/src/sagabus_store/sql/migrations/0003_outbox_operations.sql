-- What operators did with parked keys: the same operation id again returns this and does nothing.
-- A discarded record is kept here, whole, as evidence.
create table outbox_operation (
    operation_id text collate "C" not null,
    topic        text not null,
    key          bytea,
    kind         text collate "C" not null check (kind in ('redrive', 'discard')),
    actor        text not null,
    reason       text not null,
    put_back     bigint not null,
    head_id      bigint not null,
    headers      bytea,
    value        bytea,
    code         text,
    detail       text,
    recorded_at  timestamptz not null default clock_timestamp()
);
create unique index outbox_operation_once
    on outbox_operation (operation_id, topic, (key is null), sha256(coalesce(key, '')));

-- The topics of a shard by skipping: what a held topic has piled up is stepped over, not read.
create index outbox_by_topic on outbox (shard, topic, id);
