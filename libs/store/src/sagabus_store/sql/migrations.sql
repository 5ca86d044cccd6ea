-- name: try_lock_migrations
-- Hold off every other migrator of this database until the session ends; false: one is at work.
-- Never waits inside the statement: an index that is built online waits for every statement that
-- runs, and one that waits for this lock would wait for that index.
select pg_try_advisory_lock(hashtext('sagabus.migrations'))

-- name: index_state
-- Return whether an index of the present schema is valid or invalid; null: there is none.
select case when i.indisvalid then 'valid' else 'invalid' end
from pg_index i where i.indexrelid = to_regclass($1)

-- name: quote_identifier
-- Quote a name for use in a statement that takes no parameters.
select quote_ident($1)

-- name: has_schema
-- Say whether a schema exists: `create schema if not exists` needs a right that is not always had.
select exists (select from pg_namespace where nspname = $1)

-- name: create_version_table
-- Make the table that records what was applied; each component has its own version line.
create table if not exists sagabus_migration (
    component  text not null,
    version    integer not null,
    name       text not null,
    checksum   text not null,
    applied_at timestamptz not null default clock_timestamp(),
    primary key (component, version)
)

-- name: has_version_table
-- Say whether anything was ever applied here.
select to_regclass('sagabus_migration') is not null

-- name: applied_migrations
-- Return what was applied, oldest first.
select component, version, name, checksum from sagabus_migration order by component, version

-- name: record_migration
-- Record one applied migration in its own transaction.
insert into sagabus_migration (component, version, name, checksum) values ($1, $2, $3, $4)
