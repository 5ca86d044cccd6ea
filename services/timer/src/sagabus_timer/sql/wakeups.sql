-- name: arm
-- Apply requests, one per saga and in saga order; only a higher generation changes a row.
insert into wakeup as w (saga_id, generation, due_at_ms, requested_at_ms, traceparent)
select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
on conflict (saga_id) do update
set generation = excluded.generation,
    due_at_ms = excluded.due_at_ms,
    traceparent = excluded.traceparent,
    requested_at_ms = greatest(w.requested_at_ms, excluded.requested_at_ms)
where w.generation < excluded.generation
returning w.saga_id;

-- name: take_oldest
-- Fire at most $2 wake-ups due at $1, the longest overdue first; returns what was armed.
-- `any(array[..])` here and below: with `=` a plan made while the table was analysed empty scans all
-- of it once per wake-up; for this form the only other plan is a sequential scan, which is off.
with due as (
    select d.saga_id, d.due_at_ms from wakeup d
    where d.due_at_ms <= $1::bigint
    order by d.due_at_ms
    limit $2::int
    for update skip locked
)
update wakeup w set due_at_ms = null
from due
where w.saga_id = any(array[due.saga_id])
returning w.saga_id, w.generation, due.due_at_ms, w.traceparent;

-- name: take_newest
-- The same from the other end: what became due a moment ago must not wait for a whole backlog.
with due as (
    select d.saga_id, d.due_at_ms from wakeup d
    where d.due_at_ms <= $1::bigint
    order by d.due_at_ms desc
    limit $2::int
    for update skip locked
)
update wakeup w set due_at_ms = null
from due
where w.saga_id = any(array[due.saga_id])
returning w.saga_id, w.generation, due.due_at_ms, w.traceparent;

-- name: next_due
-- When the next wake-up is due, null if none is armed.
select min(due_at_ms) from wakeup where due_at_ms is not null;

-- name: outbox_depth
-- How many wake-ups the relay has still to carry away, counted up to $1.
select count(*) from (select 1 from outbox limit $1::int) waiting;

-- name: bury
-- Remove at most $2 tombstones of requests made before $1; none of them can be met again.
with old as (
    select t.saga_id from wakeup t
    where t.due_at_ms is null and t.requested_at_ms < $1::bigint
    order by t.requested_at_ms
    limit $2::int
    for update skip locked
)
delete from wakeup w using old where w.saga_id = any(array[old.saga_id]);

-- name: census
-- Armed and overdue wake-ups at $1, each counted up to $2, and how late the latest is (ms).
select
    (select count(*) from (
        select 1 from wakeup where due_at_ms is not null limit $2::int) armed) as armed,
    (select count(*) from (
        select 1 from wakeup where due_at_ms <= $1::bigint limit $2::int) overdue) as overdue,
    greatest($1::bigint - coalesce(
        (select min(due_at_ms) from wakeup where due_at_ms is not null), $1::bigint), 0) as late_ms;
