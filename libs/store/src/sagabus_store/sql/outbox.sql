-- name: append_outbox
-- Append records in the order of the arrays: ids rise in that order.
insert into outbox (shard, topic, key, headers, value)
select r.shard, r.topic, r.key, r.headers, r.value
from unnest($1::smallint[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[])
    with ordinality as r (shard, topic, key, headers, value, position)
order by r.position

-- name: append_outbox_locked
-- Take the transaction locks of the key stripes $7, in the order of the array, then append as above.
-- An id is drawn for what the sort returns, and the sort needs `held`: so after the locks are held.
with held as materialized (
    select count(pg_advisory_xact_lock($6::integer, stripe)) as locks
    from unnest($7::integer[]) as stripe
)
insert into outbox (shard, topic, key, headers, value)
select r.shard, r.topic, r.key, r.headers, r.value
from held
cross join unnest($1::smallint[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[])
    with ordinality as r (shard, topic, key, headers, value, position)
where held.locks > 0
order by r.position

-- name: fetch_outbox
-- Return the first $2 records of each of the shards $1, in id order within a shard.
select r.id, r.shard, r.topic, r.key, r.headers, r.value, r.created_at
from unnest($1::smallint[]) as owned (shard)
cross join lateral (
    select o.id, o.shard, o.topic, o.key, o.headers, o.value, o.created_at
    from outbox as o
    where o.shard = owned.shard
    order by o.id
    limit $2
) as r

-- name: delete_outbox
-- Remove the records ($1 shard, $2 id) that the broker has acknowledged.
delete from outbox as o
using unnest($1::smallint[], $2::bigint[]) as done (shard, id)
where o.shard = done.shard and o.id = done.id
