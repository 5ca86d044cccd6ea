-- name: app
-- What the orchestrator's own process may do; the audit is append-only for it.
grant select, insert on audit, audit_seal to {role};
grant select, update on refusal_budget, page_horizon to {role};
grant select on sequence journal_seq_seq, audit_seq_seq to {role};
