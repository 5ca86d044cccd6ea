-- Upkeep of the orchestrator's database: the reconciler's watermark and findings, the archive.

-- Who does a job now: until due_at nobody else begins it. A worker that works pushes due_at ahead
-- (its lease); `turn` fences one whose lease ran out meanwhile.
create table upkeep_job (
    name     text primary key,
    due_at   timestamptz not null default 'epoch',
    turn     bigint not null default 0,
    position uuid,
    progress jsonb not null default '{}',
    report   jsonb
);
comment on column upkeep_job.position is 'Watermark of the round under way: pages begin behind it.';
comment on column upkeep_job.progress is 'Counts of the round under way.';
comment on column upkeep_job.report is 'Counts of the last finished round.';
insert into upkeep_job (name) values ('reconciler'), ('archive');

-- Sagas that stood still without anything that would move them. Kept after the repair, as evidence.
create table reconciler_finding (
    saga_id        uuid not null,
    fault          text collate "C" not null,
    detail         text not null,
    times          bigint not null default 1,
    first_found_at timestamptz not null,
    last_found_at  timestamptz not null,
    repaired_at    timestamptz,
    primary key (saga_id, fault)
);
comment on column reconciler_finding.repaired_at is 'Null: still broken when it was looked at last.';
create index reconciler_finding_open on reconciler_finding (last_found_at) where repaired_at is null;

-- The reconciler's pages. All columns but the id change only with transitions that no index lets
-- be heap-only anyway (status and armed time are indexed already).
create index saga_unfinished on saga (id) include (status, control, armed_at_ms)
    where status not in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED');

-- What may be old enough for the archive; no column of it changes until a saga ends.
create index saga_ended on saga ((coalesce(ended_at, created_at)), id)
    where status in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED');

-- People name sagas by their business key.
create index saga_by_business_key on saga (business_key);

-- Terminal sagas that left the hot tables. `body`: zlib of one JSON object with the snapshot and
-- every journal fact (base64 of the stored bytes), so that the chain of digests can be proved.
create table archived_saga (
    id                 uuid primary key,
    tenant             text collate "C" not null,
    workflow           text collate "C" not null,
    business_key       text collate "C" not null,
    definition_scope   text collate "C" not null,
    definition_version integer not null,
    definition_digest  text collate "C" not null,
    status             text collate "C" not null,
    control            text collate "C" not null,
    revision           bigint not null,
    journal_head       bytea not null,
    start_id           text not null,
    body               bytea not null,
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    archived_at        timestamptz not null
);
alter table archived_saga alter column body set storage external;
create index archived_saga_by_business_key on archived_saga (business_key, created_at desc);
-- Lists of sagas go on into the archive, the newest first.
create index archived_saga_by_creation on archived_saga (created_at desc, id desc);

-- Drops the oldest journal partition that ends before limit_day; returns its first day and how many
-- facts of sagas that are not archived were copied forward first, no row if there is nothing to drop.
-- The copies keep their numbers and bytes. More than max_copied of them: refused, archive first.
-- One partition per transaction, a short wait for its lock.
create function journal_drop_partition_before(
    limit_day date, max_copied bigint, out first_day date, out copied bigint
)
returns setof record
language plpgsql security definer
set search_path from current set lock_timeout = '200ms' as $body$
declare
    oldest record;
begin
    if limit_day > (clock_timestamp() at time zone 'UTC')::date then
        raise exception 'the journal of % may still be written', limit_day - 1
            using errcode = 'invalid_parameter_value';
    end if;
    perform pg_advisory_xact_lock(hashtext('sagabus.journal.partitions'));
    select c.relname as name, to_date(right(c.relname, 6), 'YYYYMM') as day into oldest
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'journal'::regclass
    order by c.relname limit 1;
    if oldest.day is null or (oldest.day + interval '1 month')::date > limit_day then
        return;
    end if;
    -- Whoever archives a saga reads its facts under the row lock that is taken here.
    execute format(
        'with kept as (select s.id from saga s where exists ('
        '    select from %1$I j where j.saga_id = s.id) order by s.id for share)'
        ' insert into journal (seq, saga_id, revision, ordinal, fact, head, written_by, recorded_at)'
        ' overriding system value'
        ' select j.seq, j.saga_id, j.revision, j.ordinal, j.fact, j.head, j.written_by,'
        '        clock_timestamp() from %1$I j join kept k on k.id = j.saga_id', oldest.name);
    get diagnostics copied = row_count;
    if copied > max_copied then
        raise exception '% facts of % are of sagas that are not archived', copied, oldest.name
            using errcode = 'program_limit_exceeded';
    end if;
    execute format('alter table journal detach partition %I', oldest.name);
    execute format('drop table %I', oldest.name);
    first_day := oldest.day;
    return next;
end
$body$;
revoke execute on function journal_drop_partition_before(date, bigint) from public;
