-- name: app
-- What the participant's own process may do.
grant select, insert, update on shipment to {role};
