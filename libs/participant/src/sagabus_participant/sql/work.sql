-- name: enqueue
-- Hand commands over to the workers.
insert into participant_work (command_id, activation_id, lane, record, due_at, expires_at)
select given.command_id, given.activation_id, given.lane, given.record,
    to_timestamp(given.due_at_ms / 1000.0), to_timestamp(given.expires_at_ms / 1000.0)
from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[], $5::bigint[], $6::bigint[])
    with ordinality
    as given (command_id, activation_id, lane, record, due_at_ms, expires_at_ms, position)
order by given.position
on conflict (command_id) do nothing

-- name: claim
-- Lease due commands, first come first served within the lane of an activation.
-- `any(array[..])` here and below: with `=` a plan that is made while the table is empty (which it
-- is whenever workers keep up) reads all of it once per command (decision 0030).
with due as (
    select w.id
    from participant_work as w
    where w.due_at <= clock_timestamp()
        and w.leased_until < clock_timestamp()
        and not exists (
            select from participant_work as earlier
            where earlier.activation_id = w.activation_id
                and earlier.lane = w.lane
                and earlier.id < w.id
        )
    order by w.due_at
    limit $1
    for update skip locked
)
update participant_work as w
set lease = $2::uuid,
    leased_until = clock_timestamp() + make_interval(secs => $3::bigint / 1000.0),
    tries = w.tries + 1
from due
where w.id = any(array[due.id])
returning w.id, w.record, w.tries

-- name: next_due
-- In how many milliseconds the next command is due that nobody has in hand; null without any.
select (extract(epoch from w.due_at - clock_timestamp()) * 1000)::bigint
from participant_work as w
where w.leased_until < clock_timestamp()
order by w.due_at
limit 1

-- name: renew
-- Keep the leases of what is in hand; what another worker took over is left alone.
-- Rows are locked in id order here and below: no two of these statements wait for each other.
with held as materialized (
    select id from participant_work
    where id = any($1::bigint[]) and lease = $2::uuid
    order by id
    for update
)
update participant_work as w
set leased_until = clock_timestamp() + make_interval(secs => $3::bigint / 1000.0)
from held
where w.id = any(array[held.id])

-- name: hold
-- Lock leased commands and return whose they are; no row for one that is done.
select w.id, w.lease
from participant_work as w
where w.id = any($1::bigint[]) and w.lease = any($2::uuid[])
order by w.id
for update

-- name: finish
-- These commands are answered, or will never be.
with held as materialized (
    select id, lease from participant_work
    where id = any($1::bigint[]) and lease = any($2::uuid[])
    order by id
    for update
)
delete from participant_work as w
using held
join unnest($1::bigint[], $2::uuid[]) as given (id, lease) using (id, lease)
where w.id = any(array[held.id])

-- name: postpone
-- Run again at these times; the leases are given back.
with held as materialized (
    select id, lease from participant_work
    where id = any($1::bigint[]) and lease = any($2::uuid[])
    order by id
    for update
)
update participant_work as w
set due_at = to_timestamp(given.due_at_ms / 1000.0), lease = null, leased_until = '-infinity'
from held
join unnest($1::bigint[], $2::uuid[], $3::bigint[]) as given (id, lease, due_at_ms) using (id, lease)
where w.id = any(array[held.id])

-- name: backlog
-- How many commands wait or are in hand (counted up to $1), and for how long the first that is in
-- nobody's hand has been due (milliseconds).
select
    (select count(*) from (select from participant_work limit $1::int) waiting) as waiting,
    coalesce((
        select greatest(extract(epoch from clock_timestamp() - w.due_at), 0) * 1000
        from (
            select due_at from participant_work
            where leased_until < clock_timestamp()
            order by due_at
            limit 1
        ) w
    ), 0)::bigint as behind_ms
