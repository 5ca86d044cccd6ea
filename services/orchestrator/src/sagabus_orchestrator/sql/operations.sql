-- name: find_operation
-- Return what an operation id did before.
select saga_id, kind, request, outcome from operation where tenant = $1 and operation_id = $2

-- name: record_operation
-- Record an operation with its outcome, in the transaction of its effect; null if the id is taken.
insert into operation (tenant, operation_id, saga_id, kind, request, outcome, recorded_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict do nothing
returning operation_id

-- name: is_archived
-- Say whether a saga of this tenant was archived.
select exists (select from archived_saga where id = $1 and tenant = $2)
