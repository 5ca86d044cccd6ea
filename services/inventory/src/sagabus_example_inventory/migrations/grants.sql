-- name: app
-- What the participant's own process may do.
grant select, insert, update on stock, reservation to {role};
