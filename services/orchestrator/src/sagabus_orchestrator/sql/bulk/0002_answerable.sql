-- In whose name a bulk operation goes on, once it was resumed by somebody.
alter table bulk add column answerable text;
comment on column bulk.answerable is 'Who resumed it last, with the rights in permitted; null: actor.';
