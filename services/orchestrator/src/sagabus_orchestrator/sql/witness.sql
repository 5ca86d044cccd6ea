-- name: make
-- Make the table of a temporary SQLite file: what was published, and what waits to be.
create table head (
    saga blob not null, revision integer not null, head text not null, at_ms integer not null,
    waits integer not null, primary key (saga, revision, head, waits)
) without rowid

-- name: keep
-- Keep a head once, however often it was published.
insert or ignore into head values (?1, ?2, ?3, ?4, ?5)

-- name: between
-- Return what is known of sagas behind ?1, up to and with ?2 (null: all), in order.
select saga, revision, head, waits from head
where saga > ?1 and (?2 is null or saga <= ?2)
order by saga, revision
