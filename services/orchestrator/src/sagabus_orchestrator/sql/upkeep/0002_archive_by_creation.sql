-- no transaction
-- Lists of sagas go on into the archive, the newest first.
create index concurrently archived_saga_by_creation on archived_saga (created_at desc, id desc);
