-- no transaction
-- The open letters of one tenant, in the order in which they may be redriven.
create index concurrently dead_letter_by_tenant on dead_letter (tenant, topic, partition, "offset")
    where state = 'open';
