-- name: app
-- What the orchestrator's own process, and the command line, may do with bulk operations.
grant select, insert, update on bulk to {role};
grant select, insert on bulk_refusal to {role};
