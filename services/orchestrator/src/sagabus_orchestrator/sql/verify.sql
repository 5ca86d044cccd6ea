-- name: chain_page
-- Return the next $2 sagas behind $1 that any table knows of, by id, with what their chains must
-- end in: at work (is_hot), in the archive, or neither.
with known as (
    (select id from saga_key where id > $1 order by id limit $2)
    union
    (select id from saga where id > $1 order by id limit $2)
    union
    (select id from archived_saga where id > $1 order by id limit $2)
    union
    (select distinct saga_id from journal where saga_id > $1 order by saga_id limit $2)
    order by id limit $2
)
select n.id, k.id is not null as has_key, s.id is not null as is_hot,
       a.id is not null as is_archived, k.final_status, s.snapshot, s.armed_at_ms, a.body,
       coalesce(k.definition_scope = coalesce(s.definition_scope, a.definition_scope)
                and k.definition_version = coalesce(s.definition_version, a.definition_version)
                and k.definition_digest = coalesce(s.definition_digest, a.definition_digest), true)
           as key_fits,
       coalesce(s.tenant, a.tenant) as tenant,
       coalesce(s.workflow, a.workflow) as workflow,
       coalesce(s.business_key, a.business_key) as business_key,
       coalesce(s.definition_version, a.definition_version) as definition_version,
       coalesce(s.definition_digest, a.definition_digest) as definition_digest,
       coalesce(s.status, a.status) as status, coalesce(s.control, a.control) as control,
       coalesce(s.revision, a.revision) as revision,
       coalesce(s.journal_head, a.journal_head) as journal_head,
       coalesce(s.created_at, a.created_at) as created_at,
       coalesce(s.updated_at, a.updated_at) as updated_at
from known n
left join saga_key k on k.id = n.id
left join saga s on s.id = n.id
left join archived_saga a on a.id = n.id
order by n.id

-- name: facts_of
-- Return the facts of sagas in order.
select saga_id, revision, ordinal, fact, head, recorded_at from journal
where saga_id = any($1::uuid[])
order by saga_id, revision, ordinal

-- name: audited
-- Return what the audit says was done to sagas, in order.
select saga_id, kind, actor, operation_id, reason from audit
where saga_id = any($1::uuid[]) and outcome = 'done' and kind like 'saga:%'
order by seq

-- name: holds
-- Return every hold that was ever set: what it pauses bears an id that derives from its own.
select id from hold

-- name: unpublished
-- Return what of a topic $1 (and of one key $2, in its shard $3) was not published: it waits, or
-- an operator has discarded it.
select key, headers, value from outbox
where topic = $1 and ($2::bytea is null or (shard = $3::smallint and key = $2))
union all
select key, headers, value from outbox_parked
where topic = $1 and ($2::bytea is null or (shard = $3::smallint and key = $2))
union all
select key, headers, value from outbox_operation
where topic = $1 and headers is not null and ($2::bytea is null or key = $2)
