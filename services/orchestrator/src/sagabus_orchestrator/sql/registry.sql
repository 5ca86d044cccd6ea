-- name: generation
-- Return the number that grows with every change of a definition.
select generation from definition_generation

-- name: next_generation
-- Tell replicas that definitions changed; also the lock that lets one change happen at a time.
update definition_generation set generation = generation + 1 returning generation

-- name: all_definitions
-- Return every published definition.
select scope, workflow, version, digest, document, state from definition

-- name: find_definition
-- Return one definition, locked against other changes.
select scope, workflow, version, digest, document, state from definition
where scope = $1 and workflow = $2 and version = $3
for update

-- name: publish_definition
-- Add a definition as a draft.
insert into definition (scope, workflow, version, digest, document, state)
values ($1, $2, $3, $4, $5, 'DRAFT')

-- name: change_state
-- Change the state of a definition.
update definition set state = $4 where scope = $1 and workflow = $2 and version = $3

-- name: count_open_instances
-- Count the sagas that still run on a definition.
select count(*) from saga
where definition_scope = $1 and workflow = $2 and definition_version = $3
  and status not in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED')

-- name: orphaned_instances
-- Return definitions that running sagas need and that are missing or have another digest.
select distinct s.definition_scope as scope, s.workflow, s.definition_version as version,
       s.definition_digest as digest
from saga s
left join definition d
    on d.scope = s.definition_scope and d.workflow = s.workflow
   and d.version = s.definition_version and d.digest = s.definition_digest
where s.status not in ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED') and d.digest is null
limit 20
