-- Dead letters of every consumer, read from the .dlt topics, and what operators did with them.

-- Keyed by the place of the record at its source: a letter that was written twice is one row.
-- `tenant` is whose it is: as its saga says, else as its body claims; null where neither tells.
-- What no consumer of sagabus wrote is kept under its place in the .dlt topic, as kind 'foreign'.
create table dead_letter (
    topic         text collate "C" not null,
    partition     integer not null,
    "offset"      bigint not null,
    id            uuid not null unique,
    kind          text collate "C" not null,
    saga_id       uuid,
    key           bytea,
    headers       bytea not null,
    value         bytea,
    code          text collate "C" not null,
    detail        text not null,
    attempts      bigint not null,
    first_seen    text not null,
    state         text collate "C" not null default 'open'
                  check (state in ('open', 'redriven', 'discarded')),
    actor         text,
    reason        text,
    changed_at    timestamptz,
    received_at   timestamptz not null default clock_timestamp(),
    tenant        text collate "C",
    primary key (topic, partition, "offset")
);
-- Whether an earlier letter of a key is open. A key may be longer than an index entry can be.
create index dead_letter_open on dead_letter (topic, sha256(key), partition, "offset")
    where state = 'open';
create index dead_letter_by_saga on dead_letter (saga_id) where saga_id is not null;
create index dead_letter_received on dead_letter (received_at);
-- The open letters of one tenant, in the order in which they may be redriven.
create index dead_letter_by_tenant on dead_letter (tenant, topic, partition, "offset")
    where state = 'open';

-- What was done to which letter: the same operation id again returns this and does nothing.
-- Outlives the letter; `edited` is the body that was sent in place of the original one.
create table dead_letter_operation (
    operation_id text collate "C" not null,
    topic        text collate "C" not null,
    partition    integer not null,
    "offset"     bigint not null,
    kind         text collate "C" not null check (kind in ('redrive', 'discard')),
    actor        text not null,
    reason       text not null,
    request      text collate "C" not null,
    edited       bytea,
    effect       text not null,
    recorded_at  timestamptz not null default clock_timestamp(),
    primary key (operation_id, topic, partition, "offset")
);
create index dead_letter_operation_by_place
    on dead_letter_operation (topic, partition, "offset", recorded_at);
