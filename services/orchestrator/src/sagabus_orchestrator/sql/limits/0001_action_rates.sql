-- How often a tenant may act: so many starts or operations in a window of the database clock.

-- A tenant without a row is not limited. Windows are numbered from the epoch; `used` is of
-- `window_no` and void in a later one. Consumed only by what commits.
create table action_rate (
    tenant    text collate "C" not null,
    action    text collate "C" not null check (action in ('start', 'operation')),
    most      bigint not null check (most >= 0),
    window_ms bigint not null check (window_ms between 1000 and 86400000),
    window_no bigint not null default 0,
    used      bigint not null default 0,
    primary key (tenant, action)
);
