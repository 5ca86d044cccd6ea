-- What the carrier knows, by idempotency key. FORBIDDEN: never seen, and never to be shipped.

create table shipment (
    idempotency_key uuid primary key,
    shipment_id text not null unique,
    order_key text,
    address text,
    status text not null check (status in ('PENDING', 'SHIPPED', 'REFUSED', 'FORBIDDEN')),
    requests integer not null default 1,
    due_at timestamptz not null default clock_timestamp()
);

create index shipment_pending on shipment (due_at) where status = 'PENDING';
