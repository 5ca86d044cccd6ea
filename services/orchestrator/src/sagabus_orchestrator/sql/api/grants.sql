-- name: app
-- What the orchestrator's own processes may do with the keys of starts.
grant select, insert, delete on start_request to {role};
