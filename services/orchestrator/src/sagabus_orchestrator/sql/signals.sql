-- name: leave_signals
-- Leave engine signals for a replica to count.
insert into engine_signal (signal, label) select * from unnest($1::text[], $2::text[])

-- name: collect_signals
-- Take signals that no replica has counted yet; replicas do not wait for each other.
delete from engine_signal where id = any(array(
    select id from engine_signal order by id for update skip locked limit 1000
))
returning signal, label
