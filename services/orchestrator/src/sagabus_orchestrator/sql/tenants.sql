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

-- name: find_quota
-- Return a tenant's limit and how many of its sagas are not terminal.
select max_active, active from tenant_quota where tenant = $1
