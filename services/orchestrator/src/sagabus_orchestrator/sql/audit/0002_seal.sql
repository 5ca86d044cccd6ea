-- Seals of the audit: digests chained over its rows in the order of their numbers.

-- One is written once everything up to its row is complete (as `page_horizon`), and also logged: who
-- owns this database does not own the log. No operation waits for it.
create table audit_seal (
    seq       bigint primary key,
    head      bytea not null,
    sealed_at timestamptz not null default clock_timestamp()
);
comment on column audit_seal.seq is 'The last row of the audit that the head covers.';
