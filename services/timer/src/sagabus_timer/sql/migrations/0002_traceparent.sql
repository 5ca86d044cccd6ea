-- The trace of the request that armed a wake-up: what it wakes continues that trace.
alter table wakeup add column traceparent text;
