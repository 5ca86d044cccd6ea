-- name: ask
-- Hand a parcel over, once per key; the first decision stands.
insert into shipment as s (idempotency_key, shipment_id, order_key, address, status, due_at)
values (
    $1::uuid, 'SHIP-' || left($1::text, 8), $2, $3, $4,
    clock_timestamp() + make_interval(secs => $5::bigint / 1000.0)
)
on conflict (idempotency_key) do update set requests = s.requests + 1
returning s.status, s.shipment_id

-- name: settle
-- Return what is known, or forbid the key for ever where nothing is.
insert into shipment as s (idempotency_key, shipment_id, status)
values ($1::uuid, 'NONE-' || left($1::text, 8), 'FORBIDDEN')
on conflict (idempotency_key) do update set idempotency_key = s.idempotency_key
returning s.status, s.shipment_id

-- name: ready
-- Parcels whose look-up is over.
select idempotency_key, shipment_id, address
from shipment
where status = 'PENDING' and due_at <= clock_timestamp()
order by due_at
limit 20
for update skip locked

-- name: decide
-- The carrier has decided about a parcel.
update shipment set status = $2 where idempotency_key = $1::uuid and status = 'PENDING'
