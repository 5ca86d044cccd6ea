-- The orchestrator: published definitions, sagas with their journal, deferred messages, operations.

-- What was published, for ever. Scope '' is global, else it is the tenant that owns it.
create table definition (
    scope        text collate "C" not null,
    workflow     text collate "C" not null,
    version      integer not null check (version > 0),
    digest       text collate "C" not null,
    document     bytea not null,
    state        text not null check (state in ('DRAFT', 'ACTIVE', 'DEPRECATED', 'RETIRED')),
    published_at timestamptz not null default clock_timestamp(),
    primary key (scope, workflow, version)
);

-- One row: grows with every change of `definition`, so that replicas notice by reading one number.
create table definition_generation (
    only_row   boolean primary key default true check (only_row),
    generation bigint not null
);
insert into definition_generation (generation) values (0);

-- The key of every saga that was ever started: a key never starts twice, even after archival.
-- The id derives from (tenant, workflow, business key), hence it is the key.
create table saga_key (
    id                 uuid primary key,
    definition_scope   text collate "C" not null,
    definition_version integer not null,
    definition_digest  text collate "C" not null,
    request_digest     text collate "C" not null,
    field_digests      bytea not null,
    final_status       text
);

create table saga (
    id                 uuid primary key,
    tenant             text collate "C" not null,
    workflow           text collate "C" not null,
    business_key       text collate "C" not null,
    definition_scope   text collate "C" not null,
    definition_version integer not null,
    definition_digest  text collate "C" not null,
    status             text collate "C" not null,
    control            text collate "C" not null,
    revision           bigint not null,
    armed_at_ms        bigint,
    snapshot_schema    smallint not null,
    snapshot           bytea not null,
    journal_head       bytea not null,
    traceparent        text,
    start_id           text not null,
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    -- Null until the end, and for what ended before there was this column.
    ended_at           timestamptz
) with (
    -- Every transition updates its row: room on the page keeps the new version beside the old one.
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
alter table saga alter column snapshot set storage main;

-- The sweep of overdue instances.
create index saga_armed on saga (armed_at_ms) where armed_at_ms is not null;
-- Which definitions still have running instances.
create index saga_open_by_definition on saga (definition_scope, workflow, definition_version)
    where status not in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED');
-- Lists: newest first, and what needs a person.
create index saga_by_creation on saga (created_at desc, id);
create index saga_manual on saga (created_at desc, id) where status = 'MANUAL_INTERVENTION';

-- Immutable facts, chained per saga: head = SHA-256(previous head, fact).
-- `written_by` is the writing transaction, so that readers can stop below the oldest running one.
create table journal (
    seq         bigint generated always as identity,
    saga_id     uuid not null,
    revision    bigint not null,
    ordinal     integer not null,
    fact        bytea not null,
    head        bytea not null,
    written_by  xid8 not null default pg_current_xact_id(),
    recorded_at timestamptz not null,
    primary key (saga_id, revision, ordinal, recorded_at)
) partition by range (recorded_at);
create index journal_by_seq on journal (seq);

-- Makes the monthly journal partitions from first_day to last_day; returns how many were missing.
create function journal_create_partitions(first_day date, last_day date) returns integer
language plpgsql security definer set search_path from current as $body$
declare
    wanted date;
    partition_name text;
    made integer := 0;
begin
    if last_day - first_day not between 0 and 400 then
        raise exception 'from % to % is no sensible span of days', first_day, last_day
            using errcode = 'invalid_parameter_value';
    end if;
    perform pg_advisory_xact_lock(hashtext('sagabus.journal.partitions'));
    for wanted in
        select generate_series(date_trunc('month', first_day), last_day, interval '1 month')::date
    loop
        partition_name := to_char(wanted, '"journal_"YYYYMM');
        if to_regclass(quote_ident(partition_name)) is null then
            execute format(
                'create table %I partition of journal for values from (%L) to (%L)',
                partition_name,
                wanted::timestamp at time zone 'UTC',
                (wanted + interval '1 month') at time zone 'UTC'
            );
            made := made + 1;
        end if;
    end loop;
    return made;
end
$body$;
revoke execute on function journal_create_partitions(date, date) from public;

-- Results that came while their saga was paused, claimed already; applied in this order on resume.
create table deferred_message (
    id          bigint generated always as identity primary key,
    saga_id     uuid not null,
    topic       text not null,
    partition   integer not null,
    "offset"    bigint not null,
    key         bytea,
    headers     bytea not null,
    value       bytea,
    deferred_at timestamptz not null
);
create index deferred_message_by_saga on deferred_message (saga_id, id);

-- Management operations: the same id again returns the first outcome and does nothing.
create table operation (
    tenant       text collate "C" not null,
    operation_id text collate "C" not null,
    saga_id      uuid not null,
    kind         text not null,
    -- Written by releases of before: who asked, and why, stands in the audit.
    actor        text not null default '',
    reason       text not null default '',
    request      text collate "C" not null,
    outcome      bytea not null,
    recorded_at  timestamptz not null,
    primary key (tenant, operation_id)
);
create index operation_by_saga on operation (saga_id, recorded_at);

-- Tenants with a limit of sagas that are not terminal; a tenant without one has no row.
create table tenant_quota (
    tenant     text collate "C" primary key,
    max_active bigint not null check (max_active >= 0),
    active     bigint not null default 0
);

-- Results that came before their command was issued: only after a restore, in recovery mode. Claimed
-- already; applied, in this order, by the transaction that issues the command. What no command will
-- ever match stays until a person discards it, and stays as evidence then.
create table early_result (
    id             bigint generated always as identity primary key,
    saga_id        uuid not null,
    topic          text not null,
    partition      integer not null,
    "offset"       bigint not null,
    key            bytea,
    headers        bytea not null,
    value          bytea,
    kept_at        timestamptz not null,
    discarded_at   timestamptz,
    discarded_by   text,
    discard_reason text
);
create index early_result_waiting on early_result (saga_id, id) where discarded_at is null;

-- Engine signals of operations until a replica has counted them in its metrics.
create table engine_signal (
    id     bigint generated always as identity primary key,
    signal text not null,
    label  text not null
);
