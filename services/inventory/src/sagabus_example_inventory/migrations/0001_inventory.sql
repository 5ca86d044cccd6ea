-- Stock and reservations. `counting`: the shelf is being counted, nobody may take from it.

create table stock (
    sku text primary key,
    available integer not null check (available >= 0),
    counting boolean not null default false
);

create table reservation (
    reservation_id uuid primary key,
    order_key text not null,
    sku text not null references stock,
    quantity integer not null check (quantity > 0),
    status text not null check (status in ('RESERVED', 'RELEASED', 'SOLD'))
);

insert into stock (sku, available, counting)
select 'widget-' || n, 1000000, false from generate_series(0, 9) as n
union all values ('sold-out', 0, false), ('being-counted', 1000000, true);
