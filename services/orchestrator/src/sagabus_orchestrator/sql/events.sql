-- name: status_page
-- Return changes of status numbered behind $1 and up to $2 that match (null: any), having looked at
-- no more than $5 facts; without a match one row that says up to where. A fact begins with its kind.
with looked_at as materialized (
    select seq, saga_id, revision, fact, head, recorded_at from journal
    where seq > $1 and seq <= $2
    order by seq limit $5
), matched as (
    select l.*, s.tenant, s.workflow, s.business_key
    from looked_at l
    join lateral (
        select tenant, workflow, business_key from saga where id = l.saga_id
        union all
        select tenant, workflow, business_key from archived_saga where id = l.saga_id
        limit 1
    ) as s on true
    where (substring(l.fact from 1 for 16) = '{"kind":"status"'::bytea
           or substring(l.fact from 1 for 17) = '{"kind":"started"'::bytea)
      and ($3::text[] is null or s.tenant = any($3))
      and ($4::text is null or s.workflow = $4)
)
select e.looked_to, e.looked, m.*
from (select max(seq) as looked_to, count(*) as looked from looked_at) as e
left join matched m on true
order by m.seq

-- name: status_of_saga
-- Return the changes of status of one saga numbered behind $2 and up to $3, in order.
select j.seq, j.saga_id, j.revision, j.fact, j.head, j.recorded_at,
       s.tenant, s.workflow, s.business_key
from journal j
join lateral (
    select tenant, workflow, business_key from saga where id = j.saga_id
    union all
    select tenant, workflow, business_key from archived_saga where id = j.saga_id
    limit 1
) as s on true
where j.saga_id = $1 and j.seq > $2 and j.seq <= $3
  and (substring(j.fact from 1 for 16) = '{"kind":"status"'::bytea
       or substring(j.fact from 1 for 17) = '{"kind":"started"'::bytea)
order by j.seq

-- name: first_seq
-- Return the first number that the journal still has.
select min(seq) from journal
