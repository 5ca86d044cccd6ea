-- name: app
-- What the API may do with keys: find them, note their use, make and revoke them; never delete one.
grant select, insert on api_key to {role};
grant update (last_used_at, revoked_at, revoked_by) on api_key to {role};
