-- name: bulk_page
-- Return sagas behind $1 that are not at their end and match, having looked at no more than $9.
-- $8: began before this; $7: at or after this.
with looked_at as materialized (
    select id from saga
    where status not in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED') and id > $1
    order by id limit $9
), matched as (
    select s.id, s.tenant, s.workflow, s.business_key, s.definition_scope, s.definition_version,
           s.definition_digest, s.status, s.control, s.snapshot
    from looked_at l join saga s on s.id = l.id
    where ($2::text[] is null or s.tenant = any($2))
      and ($3::text is null or s.workflow = $3)
      and ($4::text[] is null or s.status = any($4))
      and ($5::text is null or starts_with(s.business_key, $5))
      and ($6::text is null or s.control = $6)
      and ($7::timestamptz is null or s.created_at >= $7)
      and ($8::timestamptz is null or s.created_at < $8)
    order by s.id limit $10
)
select e.looked, e.looked_to, m.*
from (select count(*) as looked, max(id::text collate "C")::uuid as looked_to from looked_at) as e
left join matched m on true
order by m.id

-- name: begin_bulk
-- Write a bulk operation, unless its id is taken; returns the id if it was free.
insert into bulk
    (id, operation_id, kind, tenants, filter, most, permitted, actor, reason, traceparent)
values ($1, $2, $3, $4, $5::jsonb, $6, $7, $8, $9, $10)
on conflict do nothing
returning id

-- name: find_bulk
-- Return one bulk operation.
select *, state = 'running' and due_at < clock_timestamp() - interval '60 seconds' as is_overdue
from bulk where id = $1

-- name: list_bulks
-- Return bulk operations, newest first, below a place; $1: those within these tenants.
select *, state = 'running' and due_at < clock_timestamp() - interval '60 seconds' as is_overdue
from bulk
where ($1::text[] is null or (tenants <@ $1 and tenants <> '{}'))
  and ($2::timestamptz is null or (created_at, id) < ($2, $3::uuid))
order by created_at desc, id desc
limit $4

-- name: steer_bulk
-- Change the state of a bulk operation that is in one of the states $3; returns it if it was.
update bulk set state = $2, due_at = clock_timestamp(), updated_at = clock_timestamp(), note = ''
where id = $1 and state = any($3::text[])
returning state

-- name: take_bulk
-- Begin a batch of the bulk operation that waits for longest; nobody else does for $1 ms.
update bulk
set turn = turn + 1, due_at = clock_timestamp() + $1::bigint * interval '1 millisecond'
where id = (
    select id from bulk where state = 'running' and due_at <= clock_timestamp()
    order by due_at limit 1 for update skip locked
)
returning *, false as is_overdue

-- name: give_bulk_back
-- Note how far a bulk operation came, unless the turn was lost; one that was cancelled or paused
-- meanwhile stays so.
update bulk
set position = $3, done = done + $4, refused = refused + $5, failed = failed + $6, note = $8,
    state = case when state = 'running' and $9 then 'done' else state end,
    due_at = clock_timestamp() + $7::bigint * interval '1 millisecond',
    updated_at = clock_timestamp()
where id = $1 and turn = $2
returning state

-- name: note_refusals
-- Keep which sagas could not be changed, and why.
insert into bulk_refusal (bulk_id, saga_id, business_key, code, detail)
select $1, * from unnest($2::uuid[], $3::text[], $4::text[], $5::text[])
on conflict do nothing

-- name: refusals
-- Return the sagas that a bulk operation could not change, by id, behind $2.
select saga_id, business_key, code, detail from bulk_refusal
where bulk_id = $1 and saga_id > $2
order by saga_id limit $3

-- name: overdue_bulks
-- Count running bulk operations that nobody works on.
select count(*) from bulk
where state = 'running' and due_at < clock_timestamp() - interval '60 seconds'
