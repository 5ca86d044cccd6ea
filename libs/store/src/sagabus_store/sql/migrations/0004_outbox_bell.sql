-- Whoever adds rows while the relay sleeps rings for it. The relay holds the exclusive lock of the
-- bell as long as it sleeps; a writer that gets the shared one need not ring, since the relay cannot
-- fall asleep before that writer has ended, and looks once more after it has the lock. So nothing is
-- missed, and a busy relay costs writers no NOTIFY, whose commits wait for each other.
create function outbox_ring() returns trigger
language plpgsql as $body$
begin
    if not pg_catalog.pg_try_advisory_xact_lock_shared(
        (1935762277::bigint << 32) | tg_relid::bigint
    ) then
        perform pg_catalog.pg_notify('sagabus_outbox', tg_relid::text);
    end if;
    return null;
end
$body$;
create trigger outbox_ring after insert on outbox
    for each statement execute function outbox_ring();
