-- name: register
-- Make these outboxes and their slots known; what is known already stays as it is.
with named as (
    insert into relay_outbox (name, slots)
    select * from unnest($1::text[], $2::smallint[])
    on conflict (name) do nothing
)
select 1;

-- name: register_slots
-- Make a free lease for every slot of these outboxes that has none.
insert into relay_lease (outbox, slot)
select o.name, s.slot
from relay_outbox o
cross join lateral generate_series(0, o.slots - 1) as s (slot)
where o.name = any($1::text[])
on conflict (outbox, slot) do nothing;

-- name: slots
-- How many slots each of these outboxes has.
select name, slots from relay_outbox where name = any($1::text[]);

-- name: beat
-- Say that this replica lives.
insert into relay_replica (replica, seen_at)
values ($1::uuid, clock_timestamp())
on conflict (replica) do update set seen_at = excluded.seen_at;

-- name: renew
-- Prolong what this replica still holds; what has expired is lost, even if nobody took it yet.
update relay_lease
set expires_at = clock_timestamp() + $2::bigint * interval '1 millisecond'
where replica = $1::uuid and expires_at > clock_timestamp()
returning outbox, slot;

-- name: live
-- How many replicas have been heard of within the last $1 milliseconds.
select count(*)
from relay_replica
where seen_at > clock_timestamp() - $1::bigint * interval '1 millisecond';

-- name: claim
-- Take at most $4 free slots of the outboxes $2, the longest free first.
with free as (
    select outbox, slot
    from relay_lease
    where outbox = any($2::text[]) and expires_at <= clock_timestamp()
    order by expires_at, slot, outbox
    limit $4::int
    for update skip locked
)
update relay_lease l
set replica = $1::uuid, epoch = l.epoch + 1,
    expires_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
from free f
where l.outbox = f.outbox and l.slot = f.slot
returning l.outbox, l.slot, l.epoch;

-- name: release
-- Give slots back at once, so that another replica need not wait for them to expire.
update relay_lease l
set replica = null, expires_at = '-infinity'
from unnest($2::text[], $3::smallint[]) as given (outbox, slot)
where l.outbox = given.outbox and l.slot = given.slot and l.replica = $1::uuid;

-- name: leave
-- Forget this replica, and those that have not been heard of for $2 milliseconds.
delete from relay_replica
where replica = $1::uuid or seen_at < clock_timestamp() - $2::bigint * interval '1 millisecond';
