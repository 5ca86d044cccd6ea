-- no transaction
-- Lists within one tenant, newest first.
create index concurrently saga_by_tenant on saga (tenant, created_at desc, id desc);
