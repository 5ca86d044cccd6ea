-- Where in a trace a bulk operation was asked for: what it does to each saga links that place.

alter table bulk add column traceparent text collate "C";
comment on column bulk.traceparent is 'The place in a trace of the request that began it.';
