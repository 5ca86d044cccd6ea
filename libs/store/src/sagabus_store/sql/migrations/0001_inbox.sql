-- The inbox: which messages a consumer has handled, partitioned by the UTC day that each message
-- carries (its ce_time), so that a repeat meets the partition of the first.

-- ce_id leads the key: it decides nearly every comparison. Collation C compares bytes.
create table inbox (
    consumer text collate "C" not null,
    source   text collate "C" not null,
    ce_id    text collate "C" not null,
    day      date not null,
    primary key (ce_id, source, consumer, day)
) partition by list (day);

-- Makes the partitions of first_day to last_day that do not exist yet and returns how many.
-- Attaching takes a lock that lets claims go on; `create table ... partition of` would stop them.
create function inbox_create_partitions(first_day date, last_day date) returns integer
language plpgsql security definer set search_path from current as $body$
declare
    wanted date;
    partition_name text;
    made integer := 0;
begin
    if last_day - first_day not between 0 and 400 then
        raise exception 'from % to % is no sensible span of days', first_day, last_day
            using errcode = 'invalid_parameter_value';
    end if;
    -- Two replicas that make the same partition at once would fail on its name.
    perform pg_advisory_xact_lock(hashtext('sagabus.inbox.partitions'));
    for wanted in select generate_series(first_day, last_day, interval '1 day')::date loop
        partition_name := to_char(wanted, '"inbox_"YYYYMMDD');
        if to_regclass(quote_ident(partition_name)) is null then
            execute format('create table %I (like inbox including defaults)', partition_name);
            execute format(
                'alter table inbox attach partition %I for values in (%L)', partition_name, wanted
            );
            made := made + 1;
        end if;
    end loop;
    return made;
end
$body$;

-- Drops the oldest partition of a day before limit_day and returns its day, null if there is none.
-- One per transaction and a short wait for its lock: claims queue behind it for that long at most.
create function inbox_drop_partition_before(limit_day date) returns date
language plpgsql security definer
set search_path from current set lock_timeout = '200ms' as $body$
declare
    oldest record;
begin
    if limit_day > (clock_timestamp() at time zone 'UTC')::date then
        raise exception 'the inbox of % may still be in use', limit_day - 1
            using errcode = 'invalid_parameter_value';
    end if;
    perform pg_advisory_xact_lock(hashtext('sagabus.inbox.partitions'));
    select c.relname as name, to_date(right(c.relname, 8), 'YYYYMMDD') as day into oldest
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'inbox'::regclass
    order by c.relname limit 1;
    if oldest.day is null or oldest.day >= limit_day then
        return null;
    end if;
    execute format('alter table inbox detach partition %I', oldest.name);
    execute format('drop table %I', oldest.name);
    return oldest.day;
end
$body$;

revoke execute on function inbox_create_partitions(date, date) from public;
revoke execute on function inbox_drop_partition_before(date) from public;
