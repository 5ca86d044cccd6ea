-- name: journal_end
-- Return the newest number that was given out in the journal, committed or not.
select case when is_called then last_value else 0 end from journal_seq_seq

-- name: audit_end
-- Return the newest number that was given out in the audit, committed or not.
select case when is_called then last_value else 0 end from audit_seq_seq

-- name: raise_fence
-- Take a transaction id: everyone who took a number before this has a smaller one.
select pg_current_xact_id()::text::bigint as xid,
       (extract(epoch from clock_timestamp()) * 1000)::bigint as at_ms

-- name: oldest_running
-- Return the oldest transaction id that may still be running.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint

-- name: settled
-- Return up to which number a stream is known to be complete.
select settled from page_horizon where stream = $1

-- name: settle
-- Note up to which number a stream is complete.
update page_horizon set settled = $2 where stream = $1 and settled < $2

-- name: oldest_writer
-- Return who has written and not ended for longest, in whatever database: it holds pages back.
-- Times are hidden from a role that may not read the statistics of others.
select a.pid, a.datname::text as database, a.application_name as application, a.state,
       (extract(epoch from clock_timestamp() - a.xact_start) * 1000)::bigint as age_ms
from pg_stat_activity a
where a.backend_xid is not null and a.pid <> pg_backend_pid()
order by age(a.backend_xid) desc
limit 1

-- name: journal_begin
-- Return where the journal begins: its oldest month, and its first number from month $1 on.
select (
           select min(to_date(right(c.relname, 6), 'YYYYMM'))
           from pg_inherits i join pg_class c on c.oid = i.inhrelid
           where i.inhparent = 'journal'::regclass
       ) as first_day,
       (
           select min(seq) from journal
           where $1::timestamptz is null or recorded_at >= date_trunc('month', $1::timestamptz, 'UTC')
       ) as first_seq

-- name: journal_page
-- Return facts numbered behind $1 and up to $2 that match, having looked at no more than $10.
-- $7 and $8 are pieces of the stored bytes; whoever asks looks again at the members themselves.
-- $11: of one saga, by the index of its facts; one of the two branches always ends at once.
with looked_at as materialized (
    (select seq, saga_id, revision, ordinal, fact, head, recorded_at from journal
     where $11::uuid is null and seq > $1 and seq <= $2
     order by seq limit $10)
    union all
    (select seq, saga_id, revision, ordinal, fact, head, recorded_at from journal
     where saga_id = $11 and seq > $1 and seq <= $2
     order by seq limit $10)
), matched as (
    select l.*, s.tenant, s.workflow, s.business_key
    from looked_at l
    left join lateral (
        select tenant, workflow, business_key from saga where id = l.saga_id
        union all
        select tenant, workflow, business_key from archived_saga where id = l.saga_id
        limit 1
    ) as s on true
    where ($3::text[] is null or s.tenant = any($3))
      and ($4::text is null or s.workflow = $4)
      and ($5::timestamptz is null or l.recorded_at >= $5)
      and ($6::timestamptz is null or l.recorded_at < $6)
      and ($7::bytea is null or position($7 in l.fact) > 0)
      and ($8::bytea is null or position($8 in l.fact) > 0)
    order by l.seq limit $9
)
select e.looked_to, e.looked, m.*
from (select max(seq) as looked_to, count(*) as looked from looked_at) as e
left join matched m on true
order by m.seq

-- name: audit_page
-- Return audit rows numbered behind $1 and up to $2 that match, having looked at no more than $12.
with looked_at as materialized (
    select * from audit where seq > $1 and seq <= $2 order by seq limit $12
), matched as (
    select * from looked_at
    where ($3::text[] is null or tenant = any($3))
      and ($4::text is null or workflow = $4)
      and ($5::timestamptz is null or recorded_at >= $5)
      and ($6::timestamptz is null or recorded_at < $6)
      and ($7::text is null or kind = $7)
      and ($8::text is null or actor = $8)
      and ($9::uuid is null or saga_id = $9)
      and ($10::text is null or outcome = $10)
    order by seq limit $11
)
select e.looked_to, e.looked, m.*
from (select max(seq) as looked_to, count(*) as looked from looked_at) as e
left join matched m on true
order by m.seq
