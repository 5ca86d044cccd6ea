-- name: app
-- What the orchestrator's own process may do: reconcile, archive, explain.
grant select, update on upkeep_job to {role};
grant select, insert, update, delete on reconciler_finding to {role};
grant select, insert, update on archived_saga to {role};
grant delete on saga to {role};
grant select on outbox, outbox_parked, outbox_operation to {role};

-- name: maintenance
-- What the job may do that drops old journal partitions; the orchestrator's process may not.
grant usage on schema {schema} to {role};
grant select on sagabus_migration to {role};
grant execute on function journal_drop_partition_before(date, bigint) to {role};
grant insert on audit to {role};
grant select, update on refusal_budget to {role};
