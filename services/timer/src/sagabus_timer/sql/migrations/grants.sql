-- name: app
-- What the running timer may do with its own table.
grant select, insert, update, delete on {schema}.wakeup to {role};
grant select on {schema}.outbox to {role};
