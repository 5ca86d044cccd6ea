-- name: app
-- What the orchestrator's own process may do; the journal is append-only for it.
grant usage on schema {schema} to {role};
grant select, insert, update on definition, definition_generation to {role};
grant select, insert, update on saga_key to {role};
grant select, insert, update on saga to {role};
grant select, insert on journal to {role};
grant select, insert, delete on deferred_message to {role};
grant select, insert, update, delete on early_result to {role};
grant select, insert, update, delete on engine_signal to {role};
grant select, insert on operation to {role};
grant select, insert, update, delete on tenant_quota to {role};
grant execute on function journal_create_partitions(date, date) to {role};
