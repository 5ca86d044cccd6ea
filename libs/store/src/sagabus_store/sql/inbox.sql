-- name: claim_inbox
-- Claim each (source, ce_id, day) for one consumer; returns those that were new, waits for rivals.
insert into inbox (consumer, source, ce_id, day)
select $1, claims.source, claims.ce_id, claims.day
from unnest($2::text[], $3::text[], $4::date[]) as claims (source, ce_id, day)
on conflict do nothing
returning source, ce_id, day

-- name: create_inbox_partitions
-- Make the missing partitions of a span of days; returns how many were made.
select inbox_create_partitions($1::date, $2::date)

-- name: drop_inbox_partition_before
-- Drop the oldest partition before a day; returns its day or null.
select inbox_drop_partition_before($1::date)
