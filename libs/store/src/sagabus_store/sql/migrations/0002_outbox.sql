-- The outbox: records that a transaction wants published, drained by the relay.
-- Every service has this one shape; the relay alone reads it.

-- (shard, id) and not id alone: a relay that owns some shards must not wade through the backlog of
-- the others on every poll. Order is promised per (topic, key), hence per shard.
create table outbox (
    id         bigint generated always as identity,
    shard      smallint not null check (shard between 0 and 63),
    topic      text not null,
    key        bytea,
    headers    bytea not null,
    value      bytea,
    created_at timestamptz not null default clock_timestamp(),
    primary key (shard, id)
) with (
    -- A queue: vacuum by count, not by a share of a size that swings between nothing and millions.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0
);
-- Rows live for milliseconds: compressing them costs more than it saves.
alter table outbox alter column value set storage external;
alter table outbox alter column headers set storage external;

-- Records of a parked (topic, key): the refused one has a reason, its followers have none. They
-- keep their ids, so that a redrive puts them back in order (insert ... overriding system value).
create table outbox_parked (
    id         bigint not null,
    shard      smallint not null check (shard between 0 and 63),
    topic      text not null,
    key        bytea,
    headers    bytea not null,
    value      bytea,
    created_at timestamptz not null,
    reason     text,
    detail     text,
    parked_at  timestamptz not null default clock_timestamp(),
    primary key (shard, id),
    check (reason is not null or detail is null)
);
-- Which keys of my shards are parked, and what is the order of one key's followers.
create index outbox_parked_by_key on outbox_parked (shard, topic, key, id);
