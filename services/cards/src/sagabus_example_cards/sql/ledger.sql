-- name: charge
-- Decide about a key once; a repeat is counted and changes nothing.
insert into charge as c (idempotency_key, charge_id, reference, card, amount_cents, status)
values (
    $1, case when $5 = 'charged' then 'CH-' || left($1, 8) || '-' || right($1, 4) end,
    $2, $3, $4, $5
)
on conflict (idempotency_key) do update set requests = c.requests + 1
returning c.status, c.charge_id, c.requests

-- name: settle
-- Return what was decided, or forbid the key for ever where nothing was.
insert into charge as c (idempotency_key, status)
values ($1, 'forbidden')
on conflict (idempotency_key) do update set status = c.status
returning c.status, c.charge_id

-- name: refund
-- Give back the money of a charge, once per key; no row where nothing was charged.
insert into refund as r (idempotency_key, charge_key, amount_cents)
select $1, c.idempotency_key, c.amount_cents
from charge as c
where c.idempotency_key = $2 and c.status = 'charged'
on conflict (idempotency_key) do update set requests = r.requests + 1
returning r.requests, (select card from charge where idempotency_key = $2) as card

-- name: refunded
-- Whether the refund of a key was made.
select exists (select from refund where idempotency_key = $1)

-- name: charges
-- Everything that was decided about charges.
select idempotency_key, charge_id, reference, card, amount_cents, status, requests
from charge order by decided_at

-- name: refunds
-- Everything that was given back, with the reference of its charge.
select r.idempotency_key, r.charge_key, c.reference, r.amount_cents, r.requests
from refund as r join charge as c on c.idempotency_key = r.charge_key
order by r.decided_at
