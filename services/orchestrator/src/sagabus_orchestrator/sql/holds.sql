-- name: set_hold
-- Set a hold, unless the same one is set already; returns the id if it is new.
insert into hold (id, target, name, tenant, actor, reason) values ($1, $2, $3, $4, $5, $6)
on conflict (target, name, tenant) where released_at is null do nothing
returning id

-- name: release_hold
-- Release a hold that is set; returns it.
update hold set released_at = clock_timestamp(), released_by = $4, release_reason = $5
where target = $1 and name = $2 and tenant = $3 and released_at is null
returning id

-- name: list_holds
-- Return the holds that are set, and those that are released while sagas wait to go on.
select h.id, h.target, h.name, h.tenant, h.actor, h.reason, h.set_at, h.released_at,
       (select count(*) from held_saga s where s.hold_id = h.id) as sagas
from hold h
where h.released_at is null or exists (select from held_saga s where s.hold_id = h.id)
order by h.set_at, h.id

-- name: note_held
-- Note which sagas were paused by which hold.
insert into held_saga (hold_id, saga_id, held_at)
select h.hold_id, h.saga_id, $3::timestamptz from unnest($1::uuid[], $2::uuid[]) as h (hold_id, saga_id)
on conflict do nothing

-- name: let_go
-- Return sagas behind $1, but not $3, that released holds have paused, with what resuming needs.
-- Asked every second: from the released holds on, or it would read what the others have paused; and
-- a tenant for each saga that is returned, or a join would go over all sagas.
select h.id as hold_id, d.saga_id, (select tenant from saga where id = d.saga_id) as tenant,
       h.target, h.name, h.tenant as hold_tenant, h.released_by, h.release_reason
from hold h
cross join lateral (
    select saga_id from held_saga
    where hold_id = h.id and saga_id > $1 and saga_id <> all($3::uuid[])
    order by saga_id
    limit $2
) d
where h.released_at is not null
order by d.saga_id
limit $2

-- name: gone_on
-- Forget that a hold paused a saga; returns it if that was still so.
delete from held_saga where hold_id = $1 and saga_id = $2 returning saga_id

-- name: hand_over
-- Note that hold $3 keeps a saga paused in place of hold $1, if that still did.
with gone as (
    delete from held_saga where hold_id = $1 and saga_id = $2 returning saga_id
)
insert into held_saga (hold_id, saga_id, held_at)
select $3::uuid, saga_id, clock_timestamp() from gone
on conflict do nothing

-- name: is_held
-- Say whether a hold paused a saga.
select exists (select from held_saga where saga_id = $1)

-- name: forget_held
-- Forget which holds paused a saga: by whom it is paused from now on is not theirs to end.
delete from held_saga where saga_id = $1

-- name: hold_of
-- Return the hold that paused a saga.
select h.target, h.name, h.tenant, h.actor, h.reason, d.held_at,
       h.released_at is not null as is_released
from held_saga d join hold h on h.id = d.hold_id
where d.saga_id = $1
order by d.held_at desc limit 1

-- name: count_holds
-- Count the holds that are set, and the sagas that holds have paused.
select (select count(*) from hold where released_at is null) as holds,
       (select count(*) from held_saga) as sagas

-- name: released_sagas
-- Count the sagas (up to $1) that wait to go on although their hold is released, and since when.
select count(*) as sagas,
       coalesce(extract(epoch from clock_timestamp() - min(released_at)), 0)::float8 as oldest_s
from (
    select h.released_at
    from hold h
    cross join lateral (select from held_saga where hold_id = h.id limit $1::int) d
    where h.released_at is not null
    limit $1::int
) waiting
