-- Switches that keep commands from being issued: of a workflow, or to a participant.

-- A saga that would issue such a command is paused instead, in the transaction that would.
create table hold (
    id             uuid primary key,
    target         text collate "C" not null check (target in ('workflow', 'participant')),
    name           text collate "C" not null,
    tenant         text collate "C" not null default '',
    actor          text not null,
    reason         text not null,
    set_at         timestamptz not null default clock_timestamp(),
    released_at    timestamptz,
    released_by    text,
    release_reason text
);
comment on column hold.tenant is 'Empty: of all tenants.';
create unique index hold_active on hold (target, name, tenant) where released_at is null;

-- Sagas that a hold paused, until it is released and they have gone on.
create table held_saga (
    hold_id uuid not null references hold,
    saga_id uuid not null,
    held_at timestamptz not null,
    primary key (hold_id, saga_id)
);
create index held_saga_by_saga on held_saga (saga_id);

insert into upkeep_job (name) values ('holds');
