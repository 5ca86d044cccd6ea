-- name: app
-- What the orchestrator's own process, and the command line, may do with action rates.
grant select, insert, update, delete on action_rate to {role};
