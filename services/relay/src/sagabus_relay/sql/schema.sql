-- Who relays which slot of which outbox. Nothing here is needed to keep a promise to a saga:
-- losing this database stops the relay until it is back, and loses no record.

create table relay_outbox (
    name text primary key,
    slots smallint not null check (slots between 1 and 64)
);
comment on table relay_outbox is 'Every outbox ever relayed, and into how many slots its 64 shards are grouped.';

create table relay_replica (
    replica uuid primary key,
    seen_at timestamptz not null
);
comment on table relay_replica is 'Heartbeat of every running relay: how many share the slots.';

create table relay_lease (
    outbox text not null references relay_outbox (name),
    slot smallint not null,
    replica uuid,
    epoch bigint not null default 0,
    expires_at timestamptz not null default '-infinity',
    primary key (outbox, slot)
);
comment on column relay_lease.epoch is 'Counts changes of owner, for people who read logs.';
comment on column relay_lease.expires_at is 'By this database''s clock; a free slot has expired.';
