-- Keys of machines that call the API. The secret itself is nowhere: 256 random bits need no slow
-- hash. Rows are kept for good, since audit facts name their actor by the name of the key.
create table api_key (
    id            text collate "C" primary key,
    name          text collate "C" not null unique,
    secret_sha256 bytea not null check (octet_length(secret_sha256) = 32),
    roles         text[] not null,
    permissions   text[] not null,
    tenants       text[] not null,
    all_tenants   boolean not null,
    created_at    timestamptz not null,
    created_by    text not null,
    expires_at    timestamptz,
    last_used_at  timestamptz,
    revoked_at    timestamptz,
    revoked_by    text,
    check (all_tenants or cardinality(tenants) > 0),
    check ((revoked_at is null) = (revoked_by is null))
);
comment on column api_key.id is 'The public part of the key, by which it is found.';
comment on column api_key.permissions is 'What the key may do beyond its roles.';
comment on column api_key.last_used_at is 'Coarse: written at most once an hour.';
