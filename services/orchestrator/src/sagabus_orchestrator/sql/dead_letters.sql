-- name: keep_letters
-- Keep letters that are not known yet, whatever was done with those that are. Whose they are the
-- saga says; only where there is none, the letter itself ($14), which anybody may have written.
insert into dead_letter (topic, partition, "offset", id, kind, saga_id, key, headers, value, code,
                         detail, attempts, first_seen, tenant)
select n.topic, n.partition, n.place, n.id, n.kind, n.saga_id, n.key, n.headers, n.value, n.code,
       n.detail, n.attempts, n.first_seen, coalesce(s.tenant, a.tenant, n.tenant)
from unnest($1::text[], $2::integer[], $3::bigint[], $4::uuid[], $5::text[], $6::uuid[],
            $7::bytea[], $8::bytea[], $9::bytea[], $10::text[], $11::text[], $12::bigint[],
            $13::text[], $14::text[])
    as n (topic, partition, place, id, kind, saga_id, key, headers, value, code, detail, attempts,
          first_seen, tenant)
left join saga s on s.id = n.saga_id
left join archived_saga a on a.id = n.saga_id
on conflict do nothing

-- name: find_letter
-- Return one letter.
select * from dead_letter where id = $1

-- name: lock_letter
-- Hold one letter until the commit and return its state.
select state from dead_letter where id = $1 for update

-- name: list_letters
-- Return letters by place (the order in which they are redriven); null means any.
select * from dead_letter
where ($1::text is null or state = $1)
    and ($2::text is null or topic = $2)
    and ($3::text is null or code = $3)
    and ($4::text is null or kind = $4)
    and ($5::uuid is null or saga_id = $5)
    and ($6::text is null or tenant = $6)
order by topic, partition, "offset"
limit $7

-- name: earlier_open
-- Return the first letter of this topic and key that is open and stands before a place, but for $5.
select id from dead_letter
where state = 'open' and topic = $1 and sha256(key) = sha256($2::bytea)
    and (partition, "offset") < ($3::integer, $4::bigint) and id <> all($5::uuid[])
order by partition, "offset"
limit 1

-- name: close_letter
-- Note what was done with an open letter.
update dead_letter
set state = $2, actor = $3, reason = $4, changed_at = clock_timestamp()
where id = $1 and state = 'open'

-- name: record_letter_operation
-- Record what was done to a letter, in the transaction of its effect.
insert into dead_letter_operation (operation_id, topic, partition, "offset", kind, actor, reason,
                                   request, edited, effect)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: letter_operations
-- Return what was done under an operation id: by the same actor, or by anybody to this letter.
-- What others did to other letters is no business of whoever asks: it may be another tenant's.
select o.topic, o.partition, o."offset", o.kind, o.request, o.effect
from dead_letter_operation o
where o.operation_id = $1
  and (o.actor = $2
       or (o.topic, o.partition, o."offset")
          in (select d.topic, d.partition, d."offset" from dead_letter d where d.id = $3))

-- name: letter_history
-- Return what was done to one letter, in order.
select operation_id, kind, actor, reason, edited, effect, recorded_at from dead_letter_operation
where topic = $1 and partition = $2 and "offset" = $3
order by recorded_at

-- name: open_letters
-- Count open letters by kind, for the metric, and tell the age of the oldest: among $1 of them.
select kind, count(*) as letters,
       greatest(extract(epoch from clock_timestamp() - min(received_at)), 0)::float8 as oldest_s
from (select kind, received_at from dead_letter where state = 'open' limit $1::int) looked_at
group by kind

-- name: forget_letters
-- Remove letters that are too old to be redriven; what was done to them stays recorded.
delete from dead_letter where received_at < clock_timestamp() - make_interval(days => $1::integer)

-- name: letters_page
-- Return letters by place beyond one; null means any. $10: those that belong to these tenants.
select * from dead_letter d
where ($1::text is null or state = $1)
    and ($2::text is null or topic = $2)
    and ($3::text is null or code = $3)
    and ($4::text is null or kind = $4)
    and ($5::uuid is null or saga_id = $5)
    and ($6::text is null or (topic, partition, "offset") > ($6, $7::integer, $8::bigint))
    and ($10::text[] is null
         or coalesce((select s.tenant from saga s where s.id = d.saga_id),
                     (select a.tenant from archived_saga a where a.id = d.saga_id),
                     d.tenant) = any($10))
order by topic, partition, "offset"
limit $9

-- name: letter_owner
-- Return whose a letter is: the saga's tenant, or whom it names where no such saga is known.
select coalesce((select s.tenant from saga s where s.id = d.saga_id),
                (select a.tenant from archived_saga a where a.id = d.saga_id),
                d.tenant)
from dead_letter d where d.id = $1
