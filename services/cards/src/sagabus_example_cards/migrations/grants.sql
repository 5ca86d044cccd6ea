-- name: app
-- What the processor's own process may do.
grant select, insert, update on charge, refund to {role};
