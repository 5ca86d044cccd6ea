-- Whose letter it is: as its saga says, else as its body claims; null where neither tells.
alter table dead_letter add column tenant text collate "C";
update dead_letter d set tenant = s.tenant from saga s where s.id = d.saga_id;
update dead_letter d set tenant = a.tenant from archived_saga a
where a.id = d.saga_id and d.tenant is null;
