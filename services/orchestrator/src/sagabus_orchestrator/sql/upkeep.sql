-- name: take_turn
-- Begin a job if it is due; until the lease $2 (ms) runs out nobody else begins it.
update upkeep_job
set due_at = clock_timestamp() + $2::bigint * interval '1 millisecond', turn = turn + 1
where name = $1 and due_at <= clock_timestamp()
returning turn, position, progress, (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms

-- name: give_turn_back
-- Note how far a job came and in how many ms its next piece is due, unless the turn was lost.
update upkeep_job
set due_at = clock_timestamp() + $3::bigint * interval '1 millisecond', position = $4::uuid,
    progress = $5::jsonb, report = coalesce($6::jsonb, report)
where name = $1 and turn = $2
returning turn

-- name: job_reports
-- Return where every job stands, for `sagabus doctor`.
select name, report, extract(epoch from clock_timestamp() - due_at) * 1000 as overdue_ms
from upkeep_job

-- name: unfinished_page
-- Return the next $2 sagas that are not at their end, by id, from the index alone.
select id, status, control, armed_at_ms from saga
where status not in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED')
  and id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')
order by id
limit $2

-- name: standing_still
-- Return those of a page that nothing has changed for $2 ms, with what proves their obligation.
select id, status, control, revision, armed_at_ms, snapshot from saga
where id = any($1::uuid[])
  and updated_at < clock_timestamp() - $2::bigint * interval '1 millisecond'
order by id

-- name: lock_for_repair
-- The same under their row locks.
select id, status, control, revision, armed_at_ms, snapshot from saga
where id = any($1::uuid[])
order by id
for no key update

-- name: mend_columns
-- Write the columns of locked rows as their snapshots say.
update saga s
set status = n.status, control = n.control, revision = n.revision, armed_at_ms = n.armed_at_ms
from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
    as n (id, status, control, revision, armed_at_ms)
where s.id = n.id

-- name: deferred_too_long
-- Return sagas that are not paused and hold deferred messages for longer than $1 ms.
select d.saga_id as id, count(*) as messages
from deferred_message d join saga s on s.id = d.saga_id
where s.control <> 'PAUSED'
  and d.deferred_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
group by d.saga_id
order by d.saga_id
limit $2

-- name: note_findings
-- Keep what was found; found again, it counts on.
insert into reconciler_finding as f
    (saga_id, fault, detail, first_found_at, last_found_at, repaired_at)
select n.id, n.fault, n.detail, clock_timestamp(), clock_timestamp(),
       case when n.repaired then clock_timestamp() end
from unnest($1::uuid[], $2::text[], $3::text[], $4::boolean[]) as n (id, fault, detail, repaired)
on conflict (saga_id, fault) do update
set detail = excluded.detail, times = f.times + 1, last_found_at = excluded.last_found_at,
    repaired_at = excluded.repaired_at

-- name: traces_of
-- Return the traces of sagas, for the log.
select id, traceparent from saga where id = any($1::uuid[])

-- name: close_findings
-- Findings that a whole round did not meet again have gone: by a repair, by hand, by an answer.
update reconciler_finding set repaired_at = clock_timestamp()
where repaired_at is null
  and last_found_at < to_timestamp($1::bigint / 1000.0)

-- name: forget_findings
-- Remove the evidence of what was repaired more than $1 days ago.
delete from reconciler_finding
where repaired_at < clock_timestamp() - $1::bigint * interval '1 day'

-- name: findings
-- Return findings, the open ones first, the newest first; $1: of one saga, null: of all.
select saga_id, fault, detail, times, first_found_at, last_found_at, repaired_at
from reconciler_finding
where $1::uuid is null or saga_id = $1
order by repaired_at is not null, last_found_at desc
limit $2

-- name: count_findings
-- Count what is still broken, and what was repaired within a day.
select count(*) filter (where repaired_at is null) as open,
       count(*) filter (where repaired_at > clock_timestamp() - interval '1 day') as repaired
from reconciler_finding
