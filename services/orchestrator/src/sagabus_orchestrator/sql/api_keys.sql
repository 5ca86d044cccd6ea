-- name: find_key
-- Find a key by its public part, with what the database clock says about it.
select name, secret_sha256, roles, permissions, tenants, all_tenants, expires_at,
       revoked_at is not null as revoked,
       coalesce(expires_at <= clock_timestamp(), false) as expired,
       coalesce(last_used_at < clock_timestamp() - interval '1 hour', true) as use_unnoted
from api_key where id = $1

-- name: key_standing
-- Return what a key may do by its name, with what the database clock says about it.
select name, roles, permissions, tenants, all_tenants, expires_at, revoked_at is not null as revoked,
       coalesce(expires_at <= clock_timestamp(), false) as expired
from api_key where name = $1

-- name: note_use
-- Note that a key was used, unless another replica did within the hour.
update api_key set last_used_at = clock_timestamp()
where id = $1 and coalesce(last_used_at < clock_timestamp() - interval '1 hour', true)

-- name: insert_key
-- Keep a new key unless its name is taken; returns its row then.
insert into api_key
    (id, name, secret_sha256, roles, permissions, tenants, all_tenants, created_at, created_by,
     expires_at)
values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp(), $8, clock_timestamp() + $9::interval)
on conflict (name) do nothing
returning id, name, roles, permissions, tenants, all_tenants, created_at, created_by, expires_at,
          last_used_at, revoked_at, revoked_by

-- name: list_keys
-- List at most $3 keys behind a name whose tenants are all among the given ones (null: every key).
select id, name, roles, permissions, tenants, all_tenants, created_at, created_by, expires_at,
       last_used_at, revoked_at, revoked_by
from api_key
where ($1::text[] is null or (not all_tenants and tenants <@ $1::text[])) and name > $2
order by name limit $3

-- name: revoke_key
-- Revoke a key of the given tenants (null: any) that is not revoked. Returns its row then.
update api_key
set revoked_at = clock_timestamp(), revoked_by = $3
where name = $1 and ($2::text[] is null or (not all_tenants and tenants <@ $2::text[]))
  and revoked_at is null
returning id, name, roles, permissions, tenants, all_tenants, created_at, created_by, expires_at,
          last_used_at, revoked_at, revoked_by

-- name: find_named
-- Find a key of the given tenants (null: any) by its name.
select id, name, roles, permissions, tenants, all_tenants, created_at, created_by, expires_at,
       last_used_at, revoked_at, revoked_by
from api_key
where name = $1 and ($2::text[] is null or (not all_tenants and tenants <@ $2::text[]))
