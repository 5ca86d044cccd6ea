-- name: stop_deciding
-- Wait for every transaction that decides and let none begin until this one ends.
lock table tenant_quota in exclusive mode

-- name: set_quota
-- Set a limit together with the number of sagas that are not terminal.
insert into tenant_quota (tenant, max_active, active)
select $1, $2, count(*) from saga
where tenant = $1 and status not in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED')
on conflict (tenant) do update set max_active = excluded.max_active, active = excluded.active
returning max_active, active

-- name: remove_quota
-- Forget a tenant's limit; returns the tenant if it had one.
delete from tenant_quota where tenant = $1 returning tenant

-- name: set_rate
-- Set how often a tenant may act; what was used stays used, unless the windows are other ones.
insert into action_rate as r (tenant, action, most, window_ms)
values ($1, $2, $3, $4)
on conflict (tenant, action) do update
set most = excluded.most, window_ms = excluded.window_ms,
    window_no = case when r.window_ms = excluded.window_ms then r.window_no else 0 end,
    used = case when r.window_ms = excluded.window_ms then r.used else 0 end

-- name: remove_rate
-- Let a tenant act as often as it likes; returns the tenant if it was limited.
delete from action_rate where tenant = $1 and action = $2 returning tenant

-- name: limits
-- Return every limit with its use, of at most $3 tenants behind $2 among $1 (null: all).
with limits as (
    select tenant, 'running' as action, max_active as most, 0::bigint as window_ms,
           0::bigint as window_no, active as used
    from tenant_quota
    union all
    select tenant, action, most, window_ms, window_no, used from action_rate
), named as (
    select distinct tenant from limits
    where ($1::text[] is null or tenant = any ($1)) and tenant > $2
    order by tenant limit $3
)
select l.* from limits l join named n using (tenant) order by l.tenant, l.action
