-- Who did what and why, and who was refused: one row per management operation, for ever.

-- The process may only append. What an operation id did first is in `operation` and
-- `dead_letter_operation`; what an operation changed in a saga is in the journal.
create table audit (
    seq          bigint generated always as identity primary key,
    kind         text collate "C" not null,
    actor        text not null,
    permission   text collate "C" not null,
    tenant       text collate "C" not null,
    workflow     text collate "C" not null,
    saga_id      uuid,
    subject      text not null,
    operation_id text,
    reason       text not null,
    expected     text,
    outcome      text collate "C" not null check (outcome in ('done', 'refused')),
    code         text collate "C" not null,
    detail       text not null,
    withheld     bigint not null default 0,
    recorded_at  timestamptz not null default clock_timestamp()
);
comment on column audit.tenant is 'Empty: of no single tenant, as a global definition.';
comment on column audit.expected is 'What the caller had seen, as a revision; null: nothing said.';
comment on column audit.code is 'Stable code of a refusal; empty where it was done.';
comment on column audit.withheld is 'Refusals of the same callers that were not written before this.';
create index audit_by_saga on audit (saga_id, seq) where saga_id is not null;
create index audit_by_tenant on audit (tenant, seq);

-- How many refusals may be written in a minute: a flood of them must not fill the table. Callers
-- share 64 buckets by the hash of tenant and actor; what finds no room is counted.
create table refusal_budget (
    bucket    smallint primary key,
    window_at timestamptz not null default 'epoch',
    written   bigint not null default 0,
    withheld  bigint not null default 0
);
insert into refusal_budget (bucket) select generate_series(0, 63);

-- Up to which number a stream is complete: no running transaction can add anything below. Readers
-- fall back on it while a long transaction keeps them from a newer bound.
create table page_horizon (
    stream  text collate "C" primary key,
    settled bigint not null default 0
);
insert into page_horizon (stream) values ('journal'), ('audit');

-- Seals of the audit: digests chained over its rows in the order of their numbers. One is written once everything up to its row is complete (as `page_horizon`), and also logged: who
-- owns this database does not own the log. No operation waits for it.
create table audit_seal (
    seq       bigint primary key,
    head      bytea not null,
    sealed_at timestamptz not null default clock_timestamp()
);
comment on column audit_seal.seq is 'The last row of the audit that the head covers.';
