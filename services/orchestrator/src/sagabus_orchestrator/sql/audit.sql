-- name: record_done
-- Record what was done, in the transaction of its effect; that has its id before the row a number.
with mine as materialized (select pg_current_xact_id() as xid)
insert into audit (kind, actor, permission, tenant, workflow, saga_id, subject, operation_id,
                   reason, expected, outcome, code, detail)
select $1, $2, $3, $4, $5, $6::uuid, $7, $8, $9, $10, 'done', '', $11
from mine where xid is not null

-- name: record_refused
-- Record a refusal if its bucket $13 has room for $14 a minute, else count it; returns the row's
-- number. The bucket is written first, so that the transaction has its id before the row a number.
with budget as (
    update refusal_budget b
    set window_at = case when o.fresh then clock_timestamp() else b.window_at end,
        written = case when o.fresh then 1 else least(b.written + 1, $14::bigint + 1) end,
        withheld = case when o.fresh or b.written < $14::bigint then 0 else b.withheld + 1 end
    from (
        select bucket, withheld, window_at < clock_timestamp() - interval '1 minute' as fresh
        from refusal_budget where bucket = $13 for update
    ) as o
    where b.bucket = o.bucket
    returning b.written <= $14::bigint as has_room, o.withheld as withheld
)
insert into audit (kind, actor, permission, tenant, workflow, saga_id, subject, operation_id,
                   reason, expected, outcome, code, detail, withheld)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'refused', $11, $12, withheld
from budget where has_room
returning seq

-- name: withheld
-- Count the refusals that found no room and that no later row tells of yet.
select coalesce(sum(withheld), 0)::bigint from refusal_budget

-- name: try_lock_seals
-- Let nobody else seal until the commit; false: somebody does.
select pg_try_advisory_xact_lock(hashtext('sagabus.audit.seals'))

-- name: last_seal
-- Return the newest seal.
select seq, head from audit_seal order by seq desc limit 1

-- name: sealed_rows
-- Return what a seal covers of the rows behind $1 and up to $2, in order, $3 of them at most.
select seq, kind, actor, permission, tenant, workflow, saga_id::text as saga_id, subject,
       operation_id, reason, expected, outcome, code, detail, withheld, recorded_at
from audit where seq > $1 and seq <= $2
order by seq limit $3

-- name: seal
-- Write a seal.
insert into audit_seal (seq, head) values ($1, $2)

-- name: seals
-- Return the seals behind $1 in order, $2 of them at most.
select seq, head from audit_seal where seq > $1 order by seq limit $2
