-- name: now_ms
-- Read the database clock in epoch milliseconds (it moves within a transaction).
select (extract(epoch from clock_timestamp()) * 1000)::bigint

-- name: ping
-- Show that a connection works.
select 1
