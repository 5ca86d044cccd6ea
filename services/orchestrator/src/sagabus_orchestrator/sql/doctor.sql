-- name: role
-- Return what a role (null: we) may do: needed rights as may_..., and rights that are too many.
select r.rolname::text as role, r.rolsuper as superuser,
       has_table_privilege(r.oid, 'saga', 'select') and has_table_privilege(r.oid, 'saga', 'insert')
           and has_table_privilege(r.oid, 'saga', 'update') as may_decide,
       has_table_privilege(r.oid, 'saga', 'delete')
           and has_table_privilege(r.oid, 'archived_saga', 'insert') as may_archive,
       has_table_privilege(r.oid, 'journal', 'insert') as may_journal,
       has_table_privilege(r.oid, 'outbox', 'insert') as may_send,
       has_table_privilege(r.oid, 'inbox', 'insert') as may_claim,
       has_table_privilege(r.oid, 'journal', 'update')
           or has_table_privilege(r.oid, 'journal', 'delete') as edits_journal
from pg_roles r
where r.rolname = coalesce($1::text, current_user)

-- name: outbox
-- Return how many records wait (counted to 10,000) and for how long the oldest of each shard.
select (select count(*) from (select from outbox limit 10000) as counted) as waiting,
       coalesce((
           select extract(epoch from clock_timestamp() - min(first.created_at)) * 1000
           from generate_series(0, 63) as s (shard)
           cross join lateral (
               select o.created_at from outbox o where o.shard = s.shard order by o.id limit 1
           ) as first
       ), 0)::bigint as oldest_ms,
       (select count(*) from outbox_parked where reason is not null) as parked

-- name: waiting_topics
-- Return the topics of the oldest records that wait, and of everything that is parked.
select distinct topic from (
    (select o.topic from generate_series(0, 63) as s (shard)
     cross join lateral (
         select o.topic from outbox o where o.shard = s.shard order by o.id limit 20
     ) as o)
    union all
    (select topic from outbox_parked limit 1000)
) as waiting

-- name: partitions
-- Return how many days from today the newest partition of each partitioned table begins.
select p.relname::text as parent,
       max(to_date(substring(c.relname from '[0-9]+$'),
                   case when p.relname = 'inbox' then 'YYYYMMDD' else 'YYYYMM' end))
           - (clock_timestamp() at time zone 'UTC')::date as days
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
join pg_class p on p.oid = i.inhparent
where p.relname in ('inbox', 'journal') and p.relnamespace = current_schema()::regnamespace
group by p.relname

-- name: has_dead_letters
-- Say whether dead letters are kept here.
select to_regclass('dead_letter') is not null

-- name: open_dead_letters
-- Count dead letters that nobody has decided about.
select count(*) from (select from dead_letter where state = 'open' limit 10000) as counted
