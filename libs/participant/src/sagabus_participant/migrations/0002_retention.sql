-- What the clean-up walks along: old activations first, without touching an index on every command
-- (an index on touched_at would make each of its updates dearer).
alter table participant_effect add column created_at timestamptz not null default now();
create index participant_effect_age on participant_effect (created_at, effect_id);
-- Undo effects of an activation; nearly all rows are forward effects and not in here.
create index participant_effect_undo on participant_effect (activation_id)
    where effect_id <> activation_id;
-- Effects in doubt: their answers are needed for the number of the next event.
create index participant_effect_doubt on participant_effect (intent_command_id)
    where intent_command_id is not null;
create index participant_answer_age on participant_answer (answered_at);
