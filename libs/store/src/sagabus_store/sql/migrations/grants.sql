-- name: app
-- What the service's own process may do: claim, append, make and drop inbox partitions.
grant usage on schema {schema} to {role};
grant select on sagabus_migration to {role};
grant select, insert on inbox to {role};
grant insert on outbox to {role};
grant execute on function inbox_create_partitions(date, date) to {role};
grant execute on function inbox_drop_partition_before(date) to {role};

-- name: relay
-- What the relay may do: drain the outbox, park and put back.
grant usage on schema {schema} to {role};
grant select on sagabus_migration to {role};
grant select, insert, delete on outbox to {role};
grant select, insert, update, delete on outbox_parked to {role};
grant select, insert on outbox_operation to {role};
