-- no transaction
-- Replaced by saga_ended. Older replicas archive more slowly until they are replaced.
drop index concurrently if exists saga_finished;
