-- name: app
-- What the participant's own process may do: keep its journal, its answers and its work.
grant select, insert, update, delete on participant_effect to {role};
grant select, insert, update, delete on participant_answer to {role};
grant select, insert, update, delete on participant_work to {role};
