-- name: fetch
-- Oldest rows of the shards $1 (served in this order) whose topic is not among $2: at most $3 rows,
-- and per shard no row after the first $4 bytes; with whether records of the key are parked.
-- A limit under a nested loop cuts whole shards or the tail of one, never out of the middle.
select o.id, o.shard, o.topic, o.key, o.headers, o.value, o.created_at,
    (select exists (select 1 from outbox_parked a where a.shard = any($1::smallint[])))
    and exists (
        select 1 from outbox_parked p
        where p.shard = o.shard and p.topic = o.topic and p.key is not distinct from o.key
    ) as parked,
    o.place
from unnest($1::smallint[]) as s (shard)
cross join lateral (
    select m.id, m.shard, m.topic, m.key, m.headers, m.value, m.created_at, m.place
    from (
        select h.*, h.ctid as place, sum(octet_length(h.headers) + coalesce(octet_length(h.value), 0)) over (
            order by h.id rows between unbounded preceding and 1 preceding
        ) as bytes_before
        from outbox h
        where h.shard = s.shard and h.topic <> all($2::text[])
        order by h.id
        limit $3::int
    ) m
    where m.bytes_before is null or m.bytes_before < $4::bigint
) o
limit $3::int;

-- name: fetch_beside_held
-- The same while topics are held: per shard and topic, so that the rows of a held topic, however
-- many they are, are skipped by the index. One topic of a shard fills at most a quarter of the
-- round: what waits behind it in the alphabet gets its turn.
with recursive topics as (
    select s.shard, s.place, (
        select min(h.topic) from outbox h where h.shard = s.shard
    ) as topic
    from unnest($1::smallint[]) with ordinality as s (shard, place)
    union all
    select t.shard, t.place, (
        select min(h.topic) from outbox h where h.shard = t.shard and h.topic > t.topic
    )
    from topics t
    where t.topic is not null
)
select o.id, o.shard, o.topic, o.key, o.headers, o.value, o.created_at,
    (select exists (select 1 from outbox_parked a where a.shard = any($1::smallint[])))
    and exists (
        select 1 from outbox_parked p
        where p.shard = o.shard and p.topic = o.topic and p.key is not distinct from o.key
    ) as parked,
    o.place
from (select shard, topic from topics order by place, topic) t
cross join lateral (
    select m.id, m.shard, m.topic, m.key, m.headers, m.value, m.created_at, m.place
    from (
        select h.*, h.ctid as place, sum(octet_length(h.headers) + coalesce(octet_length(h.value), 0)) over (
            order by h.id rows between unbounded preceding and 1 preceding
        ) as bytes_before
        from outbox h
        where h.shard = t.shard and h.topic = t.topic
        order by h.id
        limit greatest(1, $3::int / 4)
    ) m
    where m.bytes_before is null or m.bytes_before < $4::bigint
) o
where t.topic <> all($2::text[])
limit $3::int;

-- name: delete
-- Remove rows that were delivered: those very rows. While a round is in hand the database may be
-- set back to an earlier time, and write other rows under the same ids; so in all that follow.
-- By their place, because a queue is often empty when it is analysed: joined by its key, a plan of
-- that moment scans the whole table once for every row of a round. Hence nothing but the place may
-- be compared in a form that an index answers (`=`, a subquery that becomes a join). A row that was
-- moved meanwhile (vacuum full) stays, and is delivered again.
delete from outbox o
using unnest($1::tid[], $2::bigint[], $3::timestamptz[]) as done (place, id, created_at)
where o.ctid = done.place
    and o.id is not distinct from done.id and o.created_at is not distinct from done.created_at;

-- name: park
-- Take refused rows out of the hot table; each makes its (topic, key) a parked one.
with moved as (
    delete from outbox o
    using unnest($1::tid[], $2::bigint[], $3::timestamptz[], $4::text[], $5::text[])
        as bad (place, id, created_at, reason, detail)
    where o.ctid = bad.place
        and o.id is not distinct from bad.id and o.created_at is not distinct from bad.created_at
    returning o.id, o.shard, o.topic, o.key, o.headers, o.value, o.created_at, bad.reason, bad.detail
)
insert into outbox_parked (id, shard, topic, key, headers, value, created_at, reason, detail)
select id, shard, topic, key, headers, value, created_at, reason, detail from moved;

-- name: follow
-- Move rows behind the parked record of their key; rows whose key is parked no more stay.
with moved as (
    delete from outbox o
    using unnest($1::tid[], $2::bigint[], $3::timestamptz[]) as f (place, id, created_at)
    where o.ctid = f.place
        and o.id is not distinct from f.id and o.created_at is not distinct from f.created_at
        and exists (
            select 1 from outbox_parked p
            where p.shard = o.shard and p.topic = o.topic and p.key is not distinct from o.key
            offset 0
        )
    returning o.id, o.shard, o.topic, o.key, o.headers, o.value, o.created_at
)
insert into outbox_parked (id, shard, topic, key, headers, value, created_at)
select id, shard, topic, key, headers, value, created_at from moved;

-- name: backlog
-- Rows waiting in the shards $1 (counted up to $2) and the age in ms of the oldest.
select
    (select count(*) from (
        select 1 from unnest($1::smallint[]) as s (shard)
        cross join lateral (select 1 from outbox h where h.shard = s.shard limit $2::int) waiting
        limit $2::int
    ) counted) as rows,
    coalesce((
        select extract(epoch from clock_timestamp() - min(first.created_at)) * 1000
        from unnest($1::smallint[]) as s (shard)
        cross join lateral (
            select h.created_at from outbox h where h.shard = s.shard
            order by h.shard, h.id limit 1
        ) first
    ), 0)::float8 as oldest_ms,
    (select count(*) from outbox_parked p
     where p.shard = any($1::smallint[]) and p.reason is not null) as parked_keys;
