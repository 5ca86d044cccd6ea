-- Starts over HTTP by the key that the caller gave them (Idempotency-Key): the same key with another
-- request is refused, the same request again is answered. Forgotten after some days: the business
-- key itself never starts twice.
create table start_request (
    tenant         text collate "C" not null,
    request_key    text collate "C" not null,
    request_digest text collate "C" not null,
    saga_id        uuid not null,
    start_id       text not null,
    recorded_at    timestamptz not null default clock_timestamp(),
    primary key (tenant, request_key)
);
create index start_request_recorded on start_request (recorded_at);

-- Lists within one tenant, newest first.
create index saga_by_tenant on saga (tenant, created_at desc, id desc);
