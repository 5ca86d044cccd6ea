-- name: lock_activations
-- Create what is missing of these activations, lock all in id order, return their forward effects.
-- A row that this statement inserted has no xmax: nothing else can be known about its activation.
insert into participant_effect as e (effect_id, activation_id, saga_id, step)
select given.activation_id, given.activation_id, given.saga_id, given.step
from unnest($1::uuid[], $2::uuid[], $3::text[]) as given (activation_id, saga_id, step)
order by given.activation_id
on conflict (effect_id) do update set touched_at = clock_timestamp()
returning e.effect_id, e.state, e.reason_code, e.reason_detail, e.output_content_type,
    e.output_schema_id, e.output, e.intent_command_id, e.halt_code, e.halt_detail,
    e.halt_operation_id, e.xmax = 0 as is_new,
    (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms

-- name: lock_known
-- Lock activations that exist, in id order, and return their forward effects.
-- No row is written anew for that. No lock of this transaction is waited for longer than $2
-- milliseconds (null: what the connection has set); the setting is made before the first is taken.
with bound as materialized (
    select set_config(
        'lock_timeout', coalesce($2::integer::text, current_setting('lock_timeout')), true
    )
),
locked as materialized (
    select e.effect_id, e.state, e.reason_code, e.reason_detail, e.output_content_type,
        e.output_schema_id, e.output, e.intent_command_id, e.halt_code, e.halt_detail,
        e.halt_operation_id
    from participant_effect as e
    cross join bound
    where e.effect_id = any($1::uuid[])
    order by e.effect_id
    for update of e
)
-- The clock is read out here: beside the lock it would be read before waiting for it.
select locked.*, false as is_new,
    (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms
from locked

-- name: load_effects
-- Undo effects of activations whose lock is held.
select effect_id, state, reason_code, reason_detail, output_content_type, output_schema_id, output,
    intent_command_id, halt_code, halt_detail, halt_operation_id
from participant_effect
where effect_id = any($1::uuid[])

-- name: save_successes
-- Settle forward effects whose rows are locked: what nearly every command of a local step comes to.
update participant_effect as e set
    state = 'SUCCEEDED',
    reason_code = null,
    reason_detail = null,
    output_content_type = case when given.output is not null then 'application/json' end,
    output_schema_id = given.schema_id,
    output = given.output,
    intent_command_id = null,
    intent_record = null,
    halt_code = null,
    halt_detail = null,
    halt_operation_id = null,
    touched_at = clock_timestamp()
from unnest($1::uuid[], $2::text[], $3::bytea[]) as given (effect_id, schema_id, output)
where e.effect_id = given.effect_id

-- name: save_effects
-- Write changed effects of activations whose lock is held.
insert into participant_effect as e (
    effect_id, activation_id, saga_id, step, state, reason_code, reason_detail,
    output_content_type, output_schema_id, output, intent_command_id, intent_record,
    halt_code, halt_detail, halt_operation_id
)
select *
from unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[],
    $8::text[], $9::text[], $10::bytea[], $11::uuid[], $12::bytea[],
    $13::text[], $14::text[], $15::text[]
)
on conflict (effect_id) do update set
    state = excluded.state,
    reason_code = excluded.reason_code,
    reason_detail = excluded.reason_detail,
    output_content_type = excluded.output_content_type,
    output_schema_id = excluded.output_schema_id,
    output = excluded.output,
    intent_command_id = excluded.intent_command_id,
    intent_record = case
        when excluded.state = 'INTENT' then coalesce(excluded.intent_record, e.intent_record)
    end,
    halt_code = excluded.halt_code,
    halt_detail = excluded.halt_detail,
    halt_operation_id = excluded.halt_operation_id,
    touched_at = clock_timestamp()

-- name: find_intent
-- The command under which this effect was called last, for a callback; null once it is settled.
select state, intent_record from participant_effect where effect_id = $1::uuid

-- name: load_past
-- Of these commands: the remembered answer, and whether they already wait for a worker.
select given.command_id, answer.ordinal, answer.status, answer.terminal_status, answer.reason_code,
    answer.reason_detail, (extract(epoch from answer.answered_at) * 1000)::bigint as answered_at_ms,
    work.command_id is not null as is_queued
from unnest($1::uuid[]) as given (command_id)
left join participant_answer as answer using (command_id)
left join participant_work as work using (command_id)
where answer.command_id is not null or work.command_id is not null

-- name: save_answers
-- Remember answers that the journal alone does not give again.
insert into participant_answer as a (
    command_id, ordinal, status, terminal_status, reason_code, reason_detail, answered_at
)
select given.command_id, given.ordinal, given.status, given.terminal_status, given.reason_code,
    given.reason_detail, to_timestamp(given.answered_at_ms / 1000.0)
from unnest(
    $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[]
) as given (
    command_id, ordinal, status, terminal_status, reason_code, reason_detail, answered_at_ms
)
on conflict (command_id) do update set
    ordinal = excluded.ordinal,
    status = excluded.status,
    terminal_status = excluded.terminal_status,
    reason_code = excluded.reason_code,
    reason_detail = excluded.reason_detail,
    answered_at = excluded.answered_at

-- name: open_savepoint
-- Begin the part of one handler.
savepoint sagabus_handler

-- name: close_savepoint
-- Leave what is kept to the transaction.
release savepoint sagabus_handler

-- name: next_savepoint
-- Keep what the handler did and begin the part of the next one: one round trip.
release savepoint sagabus_handler; savepoint sagabus_handler

-- name: undo_savepoint
-- Take back what the handler did.
rollback to savepoint sagabus_handler
