-- name: app
-- What the orchestrator's own process, and the command line, may do with holds.
grant select, insert, update on hold to {role};
grant select, insert, delete on held_saga to {role};
