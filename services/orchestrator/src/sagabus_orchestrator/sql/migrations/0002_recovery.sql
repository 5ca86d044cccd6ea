
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
