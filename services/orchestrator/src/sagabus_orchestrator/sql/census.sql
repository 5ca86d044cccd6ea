-- name: manual_sagas
-- Count sagas that need a person by workflow, with the age of what changed last: among $1 of them.
select workflow, count(*) as sagas,
       greatest(extract(epoch from clock_timestamp() - min(updated_at)), 0)::float8 as oldest_s
from (
    select workflow, updated_at from saga
    where status = 'MANUAL_INTERVENTION'
    order by created_at desc, id
    limit $1::int
) looked_at
group by workflow

-- name: standing
-- Return overdue sagas (up to $1) and their longest delay, deferred messages (up to $1) and the
-- age of the oldest, open findings, and the last report of the reconciler with its age.
with clock as (select clock_timestamp() as now)
select
    (select count(*) from (
        select from saga
        where armed_at_ms < (select extract(epoch from now) * 1000 from clock)::bigint
        limit $1::int
    ) late) as overdue,
    greatest(coalesce((
        select extract(epoch from now) - (
            select min(armed_at_ms) from saga where armed_at_ms is not null
        ) / 1000.0
        from clock
    ), 0), 0)::float8 as overdue_s,
    (select count(*) from (select from deferred_message limit $1::int) kept) as deferred,
    coalesce((
        select greatest(extract(epoch from now - d.deferred_at), 0)
        from clock, (select deferred_at from deferred_message order by id limit 1) d
    ), 0)::float8 as deferred_s,
    (select count(*) from (
        select from reconciler_finding where repaired_at is null limit $1::int
    ) open) as findings,
    (select report from upkeep_job where name = 'reconciler') as report,
    (select (extract(epoch from now) * 1000)::bigint from clock) as now_ms
