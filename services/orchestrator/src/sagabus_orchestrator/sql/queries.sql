-- name: list_sagas
-- Return sagas, newest first, below a cursor; every filter may be null.
select id, tenant, workflow, business_key, definition_version, status, control, revision,
       created_at, updated_at, null::timestamptz as archived_at
from saga
where ($1::text[] is null or tenant = any($1))
  and ($2::text is null or workflow = $2)
  and ($3::text[] is null or status = any($3))
  and ($4::text is null or starts_with(business_key, $4))
  and ($5::timestamptz is null or created_at >= $5)
  and ($6::timestamptz is null or created_at < $6)
  and ($7::timestamptz is null or (created_at, id) < ($7, $8::uuid))
order by created_at desc, id desc
limit $9

-- name: list_all_sagas
-- The same with those that were archived: one statement sees each saga in one of the two tables.
select * from (
    (select id, tenant, workflow, business_key, definition_version, status, control, revision,
            created_at, updated_at, null::timestamptz as archived_at
     from saga
     where ($1::text[] is null or tenant = any($1))
       and ($2::text is null or workflow = $2)
       and ($3::text[] is null or status = any($3))
       and ($4::text is null or starts_with(business_key, $4))
       and ($5::timestamptz is null or created_at >= $5)
       and ($6::timestamptz is null or created_at < $6)
       and ($7::timestamptz is null or (created_at, id) < ($7, $8::uuid))
     order by created_at desc, id desc
     limit $9)
    union all
    (select id, tenant, workflow, business_key, definition_version, status, control, revision,
            created_at, updated_at, archived_at
     from archived_saga
     where ($1::text[] is null or tenant = any($1))
       and ($2::text is null or workflow = $2)
       and ($3::text[] is null or status = any($3))
       and ($4::text is null or starts_with(business_key, $4))
       and ($5::timestamptz is null or created_at >= $5)
       and ($6::timestamptz is null or created_at < $6)
       and ($7::timestamptz is null or (created_at, id) < ($7, $8::uuid))
     order by created_at desc, id desc
     limit $9)
) as known
order by created_at desc, id desc
limit $9

-- name: find_saga
-- Return one saga with its snapshot.
select id, tenant, workflow, business_key, definition_scope, definition_version,
       definition_digest, status, control, revision, snapshot, journal_head, created_at, updated_at
from saga where id = $1

-- name: find_by_business_key
-- Return the ids of the newest sagas with a business key; tenants and workflow may be null.
select id, tenant, workflow from (
    select id, tenant, workflow, business_key, created_at from saga
    union all
    select id, tenant, workflow, business_key, created_at from archived_saga
) as known
where business_key = $1
  and ($2::text[] is null or tenant = any($2))
  and ($3::text is null or workflow = $3)
order by created_at desc limit 2

-- name: read_journal_page
-- Return the facts of one saga in order, beyond a revision and ordinal.
select seq, revision, ordinal, fact, head, recorded_at from journal
where saga_id = $1 and (revision, ordinal) > ($2, $3)
order by revision, ordinal
limit $4

-- name: standing
-- Return where sagas stand; those that were archived meanwhile are missing.
select id, status, control, revision from saga where id = any($1::uuid[])

-- name: read_journal
-- Return the facts of one saga in order.
select seq, revision, ordinal, fact, head, recorded_at from journal
where saga_id = $1
order by revision, ordinal

-- name: count_by_status
-- Return how many sagas of a workflow stand where.
select status, count(*) as sagas from saga
where ($1::text is null or workflow = $1)
group by status
order by status
