-- name: app
-- What the running relay may do in its own database.
grant usage on schema {schema} to {role};
grant select on sagabus_migration to {role};
grant select, insert on {schema}.relay_outbox to {role};
grant select, insert, update, delete on {schema}.relay_replica to {role};
grant select, insert, update on {schema}.relay_lease to {role};
