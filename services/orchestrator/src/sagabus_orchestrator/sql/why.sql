-- name: waiting_records
-- Return the records of one key that the relay has not sent yet, in the order of sending.
select id, topic, headers, false as parked, null::text as reason, created_at
from outbox where shard = $1 and key = $2
union all
select id, topic, headers, true, coalesce(reason, 'behind a parked record'), created_at
from outbox_parked where shard = $1 and key = $2
order by id
limit 50

-- name: deferred_count
-- Count what waits for the resume of a saga.
select count(*) as messages, min(deferred_at) as oldest_at from deferred_message where saga_id = $1

-- name: last_pause
-- Return who paused a saga last, and why.
select actor, reason, recorded_at from audit
where saga_id = $1 and kind = 'saga:pause' and outcome = 'done'
order by seq desc limit 1
