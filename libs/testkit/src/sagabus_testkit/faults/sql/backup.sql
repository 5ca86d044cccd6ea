-- name: now
-- Return the instant of the server's clock, as recovery_target_time takes it.
select clock_timestamp()::text

-- name: end_segment
-- End the WAL segment in hand, so that it is archived, and return its name.
select pg_walfile_name(pg_switch_wal())

-- name: last_archived
-- Return the name of the last WAL segment that is safe in the archive.
select last_archived_wal from pg_stat_archiver

-- name: takes_writes
-- Return whether recovery is over.
select not pg_is_in_recovery()
