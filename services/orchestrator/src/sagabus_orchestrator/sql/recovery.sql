-- name: present
-- Return clock, definitions and holds as they are behind all locks, and whether early answers wait.
select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms,
       (select generation from definition_generation) as generation,
       exists (
           select from early_result where saga_id = any($1::uuid[]) and discarded_at is null
       ) as early,
       (
           select jsonb_agg(jsonb_build_object('id', id, 'target', target, 'name', name,
                                               'tenant', tenant, 'actor', actor, 'reason', reason)
                            order by set_at)
           from hold where released_at is null
       ) as holds

-- name: hold_starts
-- Let nobody keep an early answer to an unknown saga until this start has committed.
select pg_advisory_xact_lock_shared(hashtext('sagabus.orchestrator.starts'))

-- name: forbid_starts
-- Let no saga start until this transaction has kept its answers to unknown sagas.
select pg_advisory_xact_lock(hashtext('sagabus.orchestrator.starts'))

-- name: count_sagas
-- Count which of these sagas exist by now.
select count(*) from saga where id = any($1::uuid[])

-- name: take_early
-- Hold and return the early answers that wait for these sagas; the caller sorts them by id.
select id, topic, partition, "offset", key, headers, value from early_result
where saga_id = any($1::uuid[]) and discarded_at is null
for update

-- name: keep_early
-- Keep early answers, in order.
insert into early_result (saga_id, topic, partition, "offset", key, headers, value, kept_at)
select d.saga_id, d.topic, d.partition, d.position, d.key, d.headers, d.value, $8::timestamptz
from unnest($1::uuid[], $2::text[], $3::integer[], $4::bigint[], $5::bytea[], $6::bytea[],
            $7::bytea[]) with ordinality
    as d (saga_id, topic, partition, position, key, headers, value, nth)
order by d.nth

-- name: drop_early
-- Remove early answers that were applied or dead-lettered.
delete from early_result where id = any($1::bigint[])

-- name: count_early
-- Return how many early answers wait, and for how long the oldest does, among 20000 of them.
select count(*) as waiting,
       coalesce(extract(epoch from clock_timestamp() - min(kept_at)), 0)::float8 as oldest_s
from (select kept_at from early_result where discarded_at is null limit 20000) looked_at

-- name: list_early
-- Return the longest waiting early answers with where their sagas stand, beyond an id.
select e.id, e.saga_id, e.topic, e.partition, e."offset", e.key, e.headers, e.value, e.kept_at,
       s.status, s.control
from early_result e left join saga s on s.id = e.saga_id
where e.discarded_at is null and e.id > $1
order by e.id
limit $2

-- name: discard_early
-- Mark early answers as settled by a person; returns those that still waited.
update early_result set discarded_at = clock_timestamp(), discarded_by = $2, discard_reason = $3
where id = any($1::bigint[]) and discarded_at is null
returning id, topic, partition, "offset", key, headers, value
