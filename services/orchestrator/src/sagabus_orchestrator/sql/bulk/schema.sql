-- Operations on every saga that a filter names: one row each, worked off in small batches.

-- `position`: sagas up to this id are done with. Whoever works pushes due_at ahead (its lease);
-- `turn` fences one whose lease ran out. Only sagas that began before created_at are meant.
create table bulk (
    id           uuid primary key,
    operation_id text not null,
    kind         text collate "C" not null check (kind in ('pause', 'resume', 'cancel', 'retry')),
    tenants      text[],
    filter       jsonb not null,
    most         bigint not null check (most > 0),
    permitted    text[],
    actor        text not null,
    reason       text not null,
    state        text collate "C" not null default 'running'
                 check (state in ('running', 'paused', 'done', 'cancelled')),
    position     uuid not null default '00000000-0000-0000-0000-000000000000',
    done         bigint not null default 0,
    refused      bigint not null default 0,
    failed       bigint not null default 0,
    note         text not null default '',
    turn         bigint not null default 0,
    due_at       timestamptz not null default clock_timestamp(),
    created_at   timestamptz not null default clock_timestamp(),
    updated_at   timestamptz not null default clock_timestamp(),
    answerable   text
);
comment on column bulk.tenants is 'Null: of all tenants.';
comment on column bulk.permitted is 'What the actor may do, in the engine''s names; null: anything.';
comment on column bulk.note is 'Why it waits, while it does.';
comment on column bulk.answerable is 'Who resumed it last, with the rights in permitted; null: actor.';
create index bulk_running on bulk (due_at) where state = 'running';
create index bulk_by_creation on bulk (created_at desc, id);

-- Sagas that a bulk could not change, with the reason.
create table bulk_refusal (
    bulk_id      uuid not null references bulk,
    saga_id      uuid not null,
    business_key text not null,
    code         text collate "C" not null,
    detail       text not null,
    recorded_at  timestamptz not null default clock_timestamp(),
    primary key (bulk_id, saga_id)
);
