-- The ledger of the card processor. One row per idempotency key: whatever was decided first stands.

create table charge (
    idempotency_key text primary key,
    charge_id text unique,
    reference text,
    card text,
    amount_cents integer,
    status text not null check (status in ('charged', 'declined', 'forbidden')),
    requests integer not null default 1,
    decided_at timestamptz not null default clock_timestamp()
);

create table refund (
    idempotency_key text primary key,
    charge_key text not null references charge,
    amount_cents integer not null,
    requests integer not null default 1,
    decided_at timestamptz not null default clock_timestamp()
);
