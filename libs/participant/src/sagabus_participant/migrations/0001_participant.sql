-- The memory of a participant: what became of every effect, what was answered in doubt, what is
-- still to be done.

create table participant_effect (
    effect_id uuid primary key,
    -- Effect id of EXECUTE: its row is also the lock of the activation.
    activation_id uuid not null,
    saga_id uuid not null,
    step text not null,
    state text not null default 'NONE'
        check (state in ('NONE', 'INTENT', 'SUCCEEDED', 'REJECTED', 'FENCED')),
    reason_code text,
    reason_detail text,
    output_content_type text,
    output_schema_id text,
    output bytea,
    -- The command under which something outside was called last, whole: a callback answers it.
    intent_command_id uuid,
    intent_record bytea,
    halt_code text,
    halt_detail text,
    halt_operation_id text,
    touched_at timestamptz not null default clock_timestamp()
) with (fillfactor = 70);

-- Answers that the journal alone does not give again: UNKNOWN, RESOLUTION_PENDING, HALTED and
-- refusals that are not final.
create table participant_answer (
    command_id uuid primary key,
    ordinal integer not null,
    status text not null,
    terminal_status text,
    reason_code text,
    reason_detail text,
    answered_at timestamptz not null
);

create table participant_work (
    id bigint generated always as identity primary key,
    command_id uuid not null unique,
    activation_id uuid not null,
    -- 0: EXECUTE and COMPENSATE, one after the other; 1: CANCEL and RESOLVE, which overtake them.
    lane smallint not null,
    record bytea not null,
    due_at timestamptz not null,
    expires_at timestamptz not null,
    tries integer not null default 0,
    lease uuid,
    leased_until timestamptz not null default '-infinity'
);

create index participant_work_due on participant_work (due_at);
create index participant_work_lane on participant_work (activation_id, lane, id);
