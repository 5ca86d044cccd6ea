-- The shared tables as they are after all migrations: for reading, and compared by a test.

-- The inbox: which messages a consumer has handled, partitioned by the UTC day that each message
-- carries (its ce_time), so that a repeat meets the partition of the first.

-- ce_id leads the key: it decides nearly every comparison. Collation C compares bytes.
create table inbox (
    consumer text collate "C" not null,
    source   text collate "C" not null,
    ce_id    text collate "C" not null,
    day      date not null,
    primary key (ce_id, source, consumer, day)
) partition by list (day);

-- Makes the partitions of first_day to last_day that do not exist yet and returns how many.
-- Attaching takes a lock that lets claims go on; `create table ... partition of` would stop them.
create function inbox_create_partitions(first_day date, last_day date) returns integer
language plpgsql security definer set search_path from current as $body$
declare
    wanted date;
    partition_name text;
    made integer := 0;
begin
    if last_day - first_day not between 0 and 400 then
        raise exception 'from % to % is no sensible span of days', first_day, last_day
            using errcode = 'invalid_parameter_value';
    end if;
    -- Two replicas that make the same partition at once would fail on its name.
    perform pg_advisory_xact_lock(hashtext('sagabus.inbox.partitions'));
    for wanted in select generate_series(first_day, last_day, interval '1 day')::date loop
        partition_name := to_char(wanted, '"inbox_"YYYYMMDD');
        if to_regclass(quote_ident(partition_name)) is null then
            execute format('create table %I (like inbox including defaults)', partition_name);
            execute format(
                'alter table inbox attach partition %I for values in (%L)', partition_name, wanted
            );
            made := made + 1;
        end if;
    end loop;
    return made;
end
$body$;

-- Drops the oldest partition of a day before limit_day and returns its day, null if there is none.
-- One per transaction and a short wait for its lock: claims queue behind it for that long at most.
create function inbox_drop_partition_before(limit_day date) returns date
language plpgsql security definer
set search_path from current set lock_timeout = '200ms' as $body$
declare
    oldest record;
begin
    if limit_day > (clock_timestamp() at time zone 'UTC')::date then
        raise exception 'the inbox of % may still be in use', limit_day - 1
            using errcode = 'invalid_parameter_value';
    end if;
    perform pg_advisory_xact_lock(hashtext('sagabus.inbox.partitions'));
    select c.relname as name, to_date(right(c.relname, 8), 'YYYYMMDD') as day into oldest
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'inbox'::regclass
    order by c.relname limit 1;
    if oldest.day is null or oldest.day >= limit_day then
        return null;
    end if;
    execute format('alter table inbox detach partition %I', oldest.name);
    execute format('drop table %I', oldest.name);
    return oldest.day;
end
$body$;

revoke execute on function inbox_create_partitions(date, date) from public;
revoke execute on function inbox_drop_partition_before(date) from public;

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

-- Whoever adds rows while the relay sleeps rings for it. The relay holds the exclusive lock of the
-- bell as long as it sleeps; a writer that gets the shared one need not ring, since the relay cannot
-- fall asleep before that writer has ended, and looks once more after it has the lock. So nothing is
-- missed, and a busy relay costs writers no NOTIFY, whose commits wait for each other.
create function outbox_ring() returns trigger
language plpgsql as $body$
begin
    if not pg_catalog.pg_try_advisory_xact_lock_shared(
        (1935762277::bigint << 32) | tg_relid::bigint
    ) then
        perform pg_catalog.pg_notify('sagabus_outbox', tg_relid::text);
    end if;
    return null;
end
$body$;
create trigger outbox_ring after insert on outbox
    for each statement execute function outbox_ring();
