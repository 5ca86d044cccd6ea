-- name: chain_page
-- Return the next $2 sagas that were ever started, by id, with what their chains must end in.
select k.id, k.final_status, s.revision, s.journal_head, a.revision as archived_revision,
       a.journal_head as archived_head, a.body, coalesce(s.updated_at, a.updated_at) as updated_at
from (select id, final_status from saga_key where id > $1 order by id limit $2) as k
left join saga s on s.id = k.id
left join archived_saga a on a.id = k.id
order by k.id

-- name: chain_of
-- The same of one saga.
select k.id, k.final_status, s.revision, s.journal_head, a.revision as archived_revision,
       a.journal_head as archived_head, a.body, coalesce(s.updated_at, a.updated_at) as updated_at
from saga_key k
left join saga s on s.id = k.id
left join archived_saga a on a.id = k.id
where k.id = $1

-- name: heads_at
-- Return the heads of revisions of sagas that are at work; others are missing from the answer.
select distinct on (j.saga_id, j.revision) j.saga_id, j.revision, j.head
from unnest($1::uuid[], $2::bigint[]) as w (saga_id, revision)
join journal j on j.saga_id = w.saga_id and j.revision = w.revision
where exists (select from saga s where s.id = w.saga_id)
order by j.saga_id, j.revision, j.ordinal desc

-- name: archived_bodies
-- Return the archived ones of these sagas.
select id, body from archived_saga where id = any($1::uuid[]) order by id

-- name: gone
-- Return those of these sagas that are in neither table, and how they ended, if they are known.
select w.id, k.final_status, k.id is not null as is_known
from unnest($1::uuid[]) as w (id)
left join saga_key k on k.id = w.id
where not exists (select from saga s where s.id = w.id)
  and not exists (select from archived_saga a where a.id = w.id)
