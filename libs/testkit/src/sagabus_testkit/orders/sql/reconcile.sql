-- name: reservations
-- Return every reservation of the inventory.
select order_key, sku, quantity, status from reservation

-- name: stock
-- Return what the inventory says is left of each article that can be sold.
select sku, available from stock where not counting and sku <> 'sold-out'

-- name: shipments
-- Return every shipment that the carrier has decided about.
select order_key, status from shipment where order_key is not null
