-- name: reservations
-- Return every reservation of the inventory.
select order_key, sku, quantity, status from reservation

-- name: stock
-- Return what the inventory says is left of each article that can be sold.
select sku, available from stock where not counting and sku <> 'sold-out'

-- name: shipments
-- Return every shipment that the carrier has decided about.
select order_key, status from shipment where order_key is not null

-- name: sagas
-- Return how the orchestrator knows these sagas; a saga that it never started is missing.
select k.id::text as saga_id, coalesce(s.status, k.final_status) as status
from saga_key k left join saga s on s.id = k.id
where k.id = any($1::uuid[])

-- name: unsent
-- Return how many records still wait for the relay, and how many it has set aside.
select (select count(*) from outbox) as waiting, (select count(*) from outbox_parked) as parked

-- name: unsent_records
-- Return the next records that the relay has to send.
select topic, key, headers, value from outbox order by id limit $1

-- name: effects
-- Return what a participant's journal says of every effect.
select effect_id::text as effect_id, state, halt_code from participant_effect

-- name: undone
-- Return how many commands a participant has accepted and not finished.
select count(*) as commands from participant_work
