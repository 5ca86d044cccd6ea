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
-- Change the state of a bulk operation that is in one of the states $3; if it was, returns how many
-- sagas are done with. Whoever lets it run answers for the rest ($4), with the rights $5; a batch in
-- hand has the rights of somebody else, and loses its turn.
update bulk
set state = $2, turn = turn + 1, due_at = clock_timestamp(), updated_at = clock_timestamp(), note = '',
    answerable = case when $2 = 'running' then $4 else answerable end,
    permitted = case when $2 = 'running' then $5::text[] else permitted end
where id = $1 and state = any($3::text[])
returning done + refused + failed

-- name: stop_bulk
-- Pause a bulk operation that may not, or cannot, go on, and note why; as steer_bulk, if it ran.
update bulk set state = 'paused', note = $3, updated_at = clock_timestamp()
where id = $1 and turn = $2 and state = 'running'
returning done + refused + failed

-- name: take_bulk
-- Begin a batch of the bulk operation that waits for longest; nobody else does for $1 ms.
update bulk
set turn = turn + 1, due_at = clock_timestamp() + $1::bigint * interval '1 millisecond'
where id = (
    select id from bulk where state = 'running' and due_at <= clock_timestamp()
    order by due_at limit 1 for update skip locked
)
returning *, false as is_overdue

-- name: note_done
-- Count a saga in the transaction that changes it: none is counted twice, or changed and not
-- counted. Nothing is returned if the turn was lost, the bulk operation does not run any more, or
-- the saga was counted before.
update bulk set position = $3, done = done + 1, updated_at = clock_timestamp()
where id = $1 and turn = $2 and state = 'running' and position < $3
returning id

-- name: note_refusal
-- Count a saga that could not be changed ($7: for no reason of its own), and keep why; as note_done.
with counted as (
    update bulk
    set position = $3, refused = refused + 1 - $7::boolean::int,
        failed = failed + $7::boolean::int, updated_at = clock_timestamp()
    where id = $1 and turn = $2 and state = 'running' and position < $3
    returning id
), kept as (
    insert into bulk_refusal (bulk_id, saga_id, business_key, code, detail)
    select id, $3::uuid, $4, $5, $6 from counted
    on conflict do nothing
)
select id from counted

-- name: give_bulk_back
-- Say how far a bulk operation has looked ($3; null: as far as was noted), whether that was all,
-- and when and why ($4, $5) it goes on; nothing if the turn was lost or it does not run any more.
update bulk
set position = coalesce($3, position), note = $5,
    state = case when $6 then 'done' else state end,
    due_at = clock_timestamp() + $4::bigint * interval '1 millisecond',
    updated_at = clock_timestamp()
where id = $1 and turn = $2 and state = 'running'
returning state

-- name: refusals
-- Return the sagas that a bulk operation could not change, by id, behind $2.
select saga_id, business_key, code, detail from bulk_refusal
where bulk_id = $1 and saga_id > $2
order by saga_id limit $3

-- name: waiting_bulks
-- Count running bulk operations that nobody works on, and those that are paused or were stopped.
select count(*) filter (
           where state = 'running' and due_at < clock_timestamp() - interval '60 seconds'
       ) as overdue,
       count(*) filter (where state = 'paused') as paused
from bulk where state in ('running', 'paused')
