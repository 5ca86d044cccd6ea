-- name: forget_activations
-- Forget settled activations without a command since $1; looks at the next $4 older than that,
-- behind ($2, $3), and returns where it stopped. Locked, halted, doubtful and queued ones stay.
with page as (
    select e.effect_id, e.created_at
    from participant_effect as e
    where e.created_at < $1 and (e.created_at, e.effect_id) > ($2, $3::uuid)
    order by e.created_at, e.effect_id
    limit $4
),
old as (
    select e.effect_id
    from participant_effect as e
    where e.effect_id in (select effect_id from page)
        and e.effect_id = e.activation_id
        and e.touched_at < $1
        and e.state <> 'INTENT'
        and e.halt_code is null
        and not exists (select from participant_work as w where w.activation_id = e.effect_id)
        and not exists (
            select from participant_effect as undo
            where undo.activation_id = e.effect_id and undo.effect_id <> undo.activation_id
                and (undo.state = 'INTENT' or undo.halt_code is not null or undo.touched_at >= $1)
        )
    for update skip locked
),
undone as (
    delete from participant_effect as undo using old
    where undo.activation_id = old.effect_id and undo.effect_id <> undo.activation_id
),
gone as (
    delete from participant_effect as e using old where e.effect_id = old.effect_id
    returning e.effect_id
)
select (select count(*) from gone) as forgotten, (select count(*) from page) as seen,
    last.created_at, last.effect_id
from (select null) as always
left join lateral (
    select created_at, effect_id from page order by created_at desc, effect_id desc limit 1
) as last on true

-- name: forget_answers
-- Forget at most $2 remembered answers older than $1, except those of effects in doubt.
delete from participant_answer as a
using (
    select old.command_id
    from participant_answer as old
    where old.answered_at < $1
        and not exists (
            select from participant_effect as e where e.intent_command_id = old.command_id
        )
        and not exists (select from participant_work as w where w.command_id = old.command_id)
    order by old.answered_at
    limit $2
    for update skip locked
) as given
where a.command_id = given.command_id
