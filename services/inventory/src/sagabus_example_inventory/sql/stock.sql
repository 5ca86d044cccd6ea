-- name: find
-- Lock a shelf and look at it.
select available, counting from stock where sku = $1 for update

-- name: remove
-- Take this many from a locked shelf.
update stock set available = available - $2 where sku = $1

-- name: reserve
-- Note the reservation.
insert into reservation (reservation_id, order_key, sku, quantity, status)
values ($1::uuid, $2, $3, $4, 'RESERVED')

-- name: release
-- Put a reservation back on the shelf.
with released as (
    update reservation set status = 'RELEASED'
    where reservation_id = $1::uuid and status = 'RESERVED'
    returning sku, quantity
)
update stock as s set available = s.available + released.quantity
from released where s.sku = released.sku
returning s.sku

-- name: sell
-- Mark reservations as sold.
update reservation set status = 'SOLD'
where reservation_id = any($1::uuid[]) and status in ('RESERVED', 'SOLD')
returning reservation_id
