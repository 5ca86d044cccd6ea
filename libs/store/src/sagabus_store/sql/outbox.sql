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
-- Joined by their places: by the key, a plan that is made while the queue is empty scans all of it
-- once for each record.
delete from outbox as o
using unnest($1::smallint[], $2::bigint[]) as done (shard, id)
cross join lateral (
    select h.ctid as place from outbox as h where h.shard = done.shard and h.id = done.id offset 0
) as found
where o.ctid = found.place

-- name: outbox_bell
-- Return the number of the outbox and whether its writers ring.
select c.oid::bigint as outbox, exists (
    select from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'outbox_ring'
        and t.tgenabled in ('O', 'A')
) as rings
from pg_class c where c.oid = 'outbox'::regclass

-- name: hold_bell
-- From now on every commit that adds rows to the outbox $1 rings.
-- False: a writer is at work, or another relay listens.
select pg_try_advisory_lock((1935762277::bigint << 32) | $1::bigint)

-- name: let_go_of_bell
-- Writers ring no more.
select pg_advisory_unlock((1935762277::bigint << 32) | $1::bigint)
