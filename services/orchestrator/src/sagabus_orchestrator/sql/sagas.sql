-- name: known_keys
-- Return what was started under these ids, whatever became of it. The archive closes the key; a
-- replica of before that did not is made good from its archive.
select k.id, k.definition_scope, k.definition_version, k.definition_digest, k.request_digest,
       k.field_digests, coalesce(s.status, k.final_status, a.status) as status, s.revision
from saga_key k
left join saga s on s.id = k.id
left join archived_saga a on a.id = k.id and s.id is null and k.final_status is null
where k.id = any($1::uuid[])

-- name: take_keys
-- Take the keys of new sagas in id order; returns those that nobody else has.
insert into saga_key (id, definition_scope, definition_version, definition_digest, request_digest,
                      field_digests)
select * from unnest($1::uuid[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::bytea[])
on conflict do nothing
returning id

-- name: lock_sagas
-- Lock sagas in id order and return what deciding needs.
select id, tenant, workflow, business_key, definition_scope, definition_version,
       definition_digest, status, control, revision, snapshot, journal_head, traceparent, start_id,
       created_at
from saga
where id = any($1::uuid[])
order by id
for no key update

-- name: insert_sagas
-- Write new sagas.
insert into saga (id, tenant, workflow, business_key, definition_scope, definition_version,
                  definition_digest, start_id, traceparent, status, control, revision,
                  armed_at_ms, snapshot_schema, snapshot, journal_head, created_at, updated_at,
                  ended_at)
select n.*, $17::timestamptz, $17::timestamptz,
       case when n.status in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED')
            then $17::timestamptz end
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::text[],
            $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[],
            $14::smallint[], $15::bytea[], $16::bytea[])
    as n (id, tenant, workflow, business_key, definition_scope, definition_version,
          definition_digest, start_id, traceparent, status, control, revision, armed_at_ms,
          snapshot_schema, snapshot, journal_head)

-- name: update_sagas
-- Write the next revision of sagas that this transaction has locked; returns how many were written.
with changed as (
    update saga s
    set status = n.status, control = n.control, revision = n.revision,
        armed_at_ms = n.armed_at_ms, snapshot_schema = n.snapshot_schema, snapshot = n.snapshot,
        journal_head = n.journal_head, traceparent = coalesce(n.traceparent, s.traceparent),
        updated_at = $10::timestamptz,
        ended_at = case when n.status in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED')
                        then coalesce(s.ended_at, $10::timestamptz) end
    from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::smallint[],
                $7::bytea[], $8::bytea[], $9::text[])
        as n (id, revision, status, control, armed_at_ms, snapshot_schema, snapshot, journal_head,
              traceparent)
    where s.id = n.id and s.revision < n.revision
    returning 1
)
select count(*) from changed

-- name: append_journal
-- Append facts in order.
insert into journal (saga_id, revision, ordinal, fact, head, recorded_at)
select f.saga_id, f.revision, f.ordinal, f.fact, f.head, $6::timestamptz
from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bytea[], $5::bytea[])
    with ordinality as f (saga_id, revision, ordinal, fact, head, position)
order by f.position

-- name: create_journal_partitions
-- Make the missing journal partitions of a span of days; returns how many were made.
select journal_create_partitions($1::date, $2::date)

-- name: defer_messages
-- Keep results of paused sagas, in order.
insert into deferred_message (saga_id, topic, partition, "offset", key, headers, value, deferred_at)
select d.saga_id, d.topic, d.partition, d.position, d.key, d.headers, d.value, $8::timestamptz
from unnest($1::uuid[], $2::text[], $3::integer[], $4::bigint[], $5::bytea[], $6::bytea[],
            $7::bytea[]) with ordinality
    as d (saga_id, topic, partition, position, key, headers, value, nth)
order by d.nth

-- name: take_deferred
-- Remove and return the deferred messages of a saga; the caller sorts them by id.
delete from deferred_message where saga_id = $1
returning id, topic, partition, "offset", key, headers, value

-- name: read_deferred
-- Return the deferred messages of a saga; the caller sorts them by id.
select id, topic, partition, "offset", key, headers, value from deferred_message
where saga_id = $1

-- name: share_definitions
-- Hold definitions as they are until the commit and return their states.
select d.scope, d.workflow, d.version, d.state, d.digest
from definition d
join unnest($1::text[], $2::text[], $3::integer[]) as wanted (scope, workflow, version)
    using (scope, workflow, version)
order by d.scope, d.workflow, d.version
for share of d

-- name: lock_quotas
-- Lock the quota rows of these tenants in order, then their action rates; most have none.
with quota as materialized (
    select tenant, max_active, active from tenant_quota
    where tenant = any($1::text[])
    order by tenant
    for update
), rate as materialized (
    select tenant, action, most, window_ms, window_no, used from action_rate
    where tenant = any($1::text[])
    order by tenant, action
    for update
)
select tenant, null as action, max_active as most, 0::bigint as window_ms,
       0::bigint as window_no, active as used
from quota
union all
select tenant, action, most, window_ms, window_no, used from rate

-- name: change_quotas
-- Add starts minus terminal transitions, one row per tenant.
update tenant_quota q set active = greatest(q.active + c.delta, 0)
from unnest($1::text[], $2::bigint[]) as c (tenant, delta)
where q.tenant = c.tenant

-- name: use_rates
-- Note what tenants have used of their rates, one row per tenant and action.
update action_rate r set window_no = u.window_no, used = u.used
from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
    as u (tenant, action, window_no, used)
where r.tenant = u.tenant and r.action = u.action

-- name: overdue_sagas
-- Return sagas whose armed time passed without a wake-up, the longest overdue first.
select id, traceparent from saga
where armed_at_ms <= $1 and id <> all($2::uuid[])
order by armed_at_ms
limit $3
