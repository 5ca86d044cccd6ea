-- name: describe_schema
-- Return every object of the current schema as sorted lines that mean the same on every server.
with here as (select current_schema()::regnamespace as ns),
relations as (
    select c.* from pg_class c, here
    where c.relnamespace = here.ns and c.relname <> 'sagabus_migration'
      and c.relname <> 'sagabus_migration_pkey'
)
select line from (
    select format('%s %s partition=%s options=%s', case c.relkind
            when 'r' then 'table' when 'p' then 'partitioned table' when 'v' then 'view'
            when 'm' then 'materialized view' when 'S' then 'sequence' else c.relkind::text end,
        c.relname, coalesce(pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid)),
        c.reloptions::text || coalesce(t.reloptions::text, '')) as line
    from relations c left join pg_class t on t.oid = c.reltoastrelid
    where c.relkind not in ('i', 'I')
    union all
    select format('column %s.%s %s null=%s default=%s identity=%s generated=%s storage=%s collation=%s',
        c.relname, a.attname, format_type(a.atttypid, a.atttypmod), not a.attnotnull,
        pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attstorage, l.collname)
    from relations c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    left join pg_collation l on l.oid = a.attcollation
    where c.relkind in ('r', 'p', 'v', 'm')
    union all
    select format('constraint %s.%s %s', c.relname, k.conname, pg_get_constraintdef(k.oid))
    from relations c join pg_constraint k on k.conrelid = c.oid
    union all
    select format('index %s', pg_get_indexdef(i.indexrelid))
    from relations c join pg_index i on i.indrelid = c.oid
    union all
    select format('trigger %s', pg_get_triggerdef(t.oid))
    from relations c join pg_trigger t on t.tgrelid = c.oid where not t.tgisinternal
    union all
    select format('function %s acl=%s', pg_get_functiondef(p.oid), p.proacl is not null)
    from pg_proc p, here
    where p.pronamespace = here.ns and p.prokind in ('f', 'p')
    union all
    select format('type %s %s', t.typname, (
        select string_agg(e.enumlabel, ',' order by e.enumsortorder)
        from pg_enum e where e.enumtypid = t.oid))
    from pg_type t, here where t.typnamespace = here.ns and t.typtype in ('e', 'd')
) as catalogue
order by line collate "C"
