-- name: take_ended
-- Lock at most $2 sagas that ended and did not change since $1, the oldest first; whoever is
-- at work on one keeps it.
select id, tenant, workflow, business_key, definition_scope, definition_version, definition_digest,
       status, control, revision, snapshot, journal_head, start_id, created_at, updated_at
from saga s
where status in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED')
  and coalesce(ended_at, created_at) < $1::timestamptz and updated_at < $1::timestamptz
  and not exists (select from deferred_message d where d.saga_id = s.id)
order by coalesce(ended_at, created_at), id
limit $2
for update skip locked

-- name: journals_of
-- Return the facts of locked sagas in order.
select saga_id, revision, ordinal, fact, head, recorded_at from journal
where saga_id = any($1::uuid[])
order by saga_id, revision, ordinal

-- name: put_away
-- Write sagas into the archive.
insert into archived_saga (id, tenant, workflow, business_key, definition_scope,
                           definition_version, definition_digest, status, control, revision,
                           journal_head, start_id, body, created_at, updated_at, archived_at)
select n.*, clock_timestamp()
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::text[],
            $8::text[], $9::text[], $10::bigint[], $11::bytea[], $12::text[], $13::bytea[],
            $14::timestamptz[], $15::timestamptz[]) as n

-- name: close_keys
-- Note how sagas ended in their keys, which stay for ever.
update saga_key k set final_status = ended.status
from unnest($1::uuid[], $2::text[]) as ended (id, status)
where k.id = ended.id

-- name: remove_ended
-- Remove what is in the archive now, at this very revision; returns how many. The keys stay and
-- refuse a second start for ever.
with removed as (
    delete from saga s using archived_saga a
    where s.id = any($1::uuid[]) and a.id = s.id and a.revision = s.revision
    returning 1
)
select count(*) from removed

-- name: lock_archived
-- Lock archived sagas in id order for a result that comes late.
select id, workflow, definition_scope, definition_version, definition_digest, journal_head,
       start_id, body, created_at
from archived_saga
where id = any($1::uuid[])
order by id
for no key update

-- name: update_archived
-- Write archived sagas with what came late.
update archived_saga a
set revision = n.revision, journal_head = n.journal_head, body = n.body,
    updated_at = $5::timestamptz
from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bytea[])
    as n (id, revision, journal_head, body)
where a.id = n.id

-- name: find_archived
-- Return one archived saga.
select id, tenant, workflow, business_key, definition_scope, definition_version,
       definition_digest, status, control, revision, journal_head, body, created_at, updated_at,
       archived_at
from archived_saga where id = $1

-- name: drop_journal_partition
-- Drop the oldest journal partition before a day; no row if there is none.
select first_day, copied from journal_drop_partition_before($1::date, $2::bigint)
