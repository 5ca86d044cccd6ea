-- name: known_requests
-- Return what was started under these request keys, and where it stands.
select r.tenant, r.request_key, r.request_digest, r.saga_id, r.start_id,
       coalesce(s.status, k.final_status) as status, s.revision,
       k.definition_version as version
from unnest($1::text[], $2::text[]) as w (tenant, request_key)
join start_request r on r.tenant = w.tenant and r.request_key = w.request_key
join saga_key k on k.id = r.saga_id
left join saga s on s.id = r.saga_id

-- name: keep_requests
-- Note what was started under which request key, in key order; returns how many keys were free.
with kept as (
    insert into start_request (tenant, request_key, request_digest, saga_id, start_id)
    select * from unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::text[])
    on conflict do nothing
    returning 1
)
select count(*) from kept

-- name: forget_requests
-- Remove request keys that are older than $1 days.
delete from start_request where recorded_at < clock_timestamp() - make_interval(days => $1::integer)
