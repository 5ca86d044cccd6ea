-- When a saga came to its end. The archive looks for it in place of `updated_at`: an index on what
-- every transition changes lets no update of a saga stay on its page, and each then writes anew
-- into every index. Null for sagas that ended before, or under older code: their creation counts.
alter table saga add column ended_at timestamptz;
