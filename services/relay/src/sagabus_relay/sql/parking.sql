-- name: lock_parking
-- Serialise parking, following and what operators do to these shards (ascending) until the commit.
select pg_advisory_xact_lock($1::int, s.shard) from unnest($2::int[]) as s (shard);

-- name: parked
-- Parked keys, the longest parked first, with how many rows wait behind each, at most $1; only of
-- the topic $2 and the reason $3, where they are given.
select * from (
    select p.shard, p.topic, p.key, min(p.id) as first_id, count(*) as rows,
        min(p.created_at) as oldest_at, min(p.parked_at) as parked_at,
        coalesce((array_agg(p.reason order by p.id) filter (where p.reason is not null))[1], '')
            as reason,
        coalesce((array_agg(p.detail order by p.id) filter (where p.reason is not null))[1], '')
            as detail
    from outbox_parked p
    where $2::text is null or p.topic = $2
    group by p.shard, p.topic, p.key
) k
where $3::text is null or k.reason = $3
order by k.parked_at
limit $1::int;

-- name: parked_row
-- One parked row by its id, in whichever shard it is.
select p.shard, p.topic, p.key, p.headers, p.value, p.reason, p.detail
from generate_series(0, 63) as s (shard)
join outbox_parked p on p.shard = s.shard and p.id = $1::bigint;

-- name: head
-- The first parked row of a key.
select id, headers, value, reason, detail from outbox_parked p
where p.shard = $1::smallint and p.topic = $2::text and p.key is not distinct from $3::bytea
order by id
limit 1;

-- name: discard
-- Remove one parked row.
delete from outbox_parked where shard = $1::smallint and id = $2::bigint;

-- name: redrive
-- Put every parked row of one key back under its old id, before whatever came later.
with moved as (
    delete from outbox_parked p
    where p.shard = $1::smallint and p.topic = $2::text and p.key is not distinct from $3::bytea
    returning p.id, p.shard, p.topic, p.key, p.headers, p.value, p.created_at
)
insert into outbox (id, shard, topic, key, headers, value, created_at)
overriding system value
select id, shard, topic, key, headers, value, created_at from moved;

-- name: record_operation
-- Record what was done to a parked key, in the transaction of its effect.
insert into outbox_operation (operation_id, topic, key, kind, actor, reason, put_back, head_id,
                              headers, value, code, detail)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: operations
-- What was done under an operation id, to whatever keys.
select topic, key, kind, put_back, head_id from outbox_operation where operation_id = $1;
