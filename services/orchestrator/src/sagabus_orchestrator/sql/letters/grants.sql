-- name: app
-- What the orchestrator's own process, and the command line, may do with dead letters.
grant select, insert, update, delete on dead_letter to {role};
grant select, insert on dead_letter_operation to {role};
