"""The relay as it is deployed: schema file, rights of its roles, fifty outboxes."""

import json
import secrets
from importlib.resources import files

import asyncpg
import pytest

from sagabus_relay import COMPONENTS, RelaySettings
from sagabus_relay.app import build
from sagabus_runtime import SettingsError, load
from sagabus_store import SHARED, Database, DatabaseOptions, describe_schema, migrate, outbox, roles
from sagabus_testkit import LocalStack, eventually

from .support import Bench, number, read, relaying, row

OUTBOXES = 50


async def test_the_schema_file_equals_the_sum_of_the_migrations(
    orders: Bench, database: str
) -> None:
    from_file = await asyncpg.connect(database)
    await from_file.execute(files("sagabus_relay").joinpath("sql/schema.sql").read_text())
    from_steps = await asyncpg.connect(orders.relay_dsn)
    lines = await describe_schema(from_file)
    assert lines == await describe_schema(from_steps)
    assert len(lines) > 10
    await from_file.close()
    await from_steps.close()


async def login(dsn: str, role: str) -> str:
    owner = await asyncpg.connect(dsn)
    await owner.execute(f"create role {role} login password 'secret'")
    await owner.close()
    scheme, _, rest = dsn.partition("://")
    return f"{scheme}://{role}:secret@{rest.rpartition('@')[2]}"


async def test_the_rights_of_the_two_roles_suffice(orders: Bench) -> None:
    role = f"relay_{secrets.token_hex(4)}"
    dsn = await login(orders.dsn, role)
    own_dsn = orders.relay_dsn.replace(orders.relay_dsn.split("//")[1].split("@")[0],
                                       f"{role}:secret")  # fmt: skip
    for place, components, profile in (
        (orders.relay_dsn, COMPONENTS, "app"),
        (orders.dsn, (SHARED,), "relay"),
    ):
        owner = await asyncpg.connect(place)
        await roles.grant(owner, components, profile=profile, role=role)  # type: ignore[arg-type]  # the literal is in the tuple
        await owner.close()
    settings = orders.settings(
        postgres=own_dsn,
        outboxes=json.dumps({"orders": dsn}),
        migrate_on_start="false",  # as where a deployment job migrates: this role may not
    )
    async with relaying(settings):
        await orders.append([row(orders.topic, "a", 0, 600_000), row(orders.topic, "a", 1)])
        await orders.append([row(orders.topic, "b", 2)])
        await eventually(orders.drained, within=20)
    assert await orders.count("outbox_parked") == 2
    owner = await asyncpg.connect(orders.relay_dsn)
    await owner.execute(f"drop owned by {role}")
    await owner.close()
    owner = await asyncpg.connect(orders.dsn)
    await owner.execute(f"drop owned by {role}; drop role {role}")
    await owner.close()


async def test_fifty_outboxes_at_once(orders: Bench, stack: LocalStack) -> None:
    template = f"{orders.prefix}_template"
    await migrate(stack.postgres.create_database(template), [SHARED])
    names = [f"{orders.prefix}_{n}" for n in range(OUTBOXES)]
    dsns = {
        f"outbox-{n}": stack.postgres.create_database(name, template=template)
        for n, name in enumerate(names)
    }
    try:
        async with relaying(orders.settings(outboxes=json.dumps(dsns))):
            for n, dsn in enumerate(dsns.values()):
                database = Database(dsn, DatabaseOptions(application_name="test", pool_size=1))
                await database.open()
                async with database.transaction() as connection:
                    await outbox.append(
                        connection, [row(orders.topic, f"k{n}", n * 20 + m) for m in range(20)]
                    )
                await database.close()

            async def all_arrived() -> bool:
                return len(await read(stack, orders.topic)) >= OUTBOXES * 20

            await eventually(all_arrived, within=60)
        found = sorted(number(record) for record in await read(stack, orders.topic))
        assert found == list(range(OUTBOXES * 20))
    finally:
        for name in [*names, template]:
            stack.postgres.drop_database(name)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("SAGABUS_OUTBOXES", "not json", "must be JSON"),
        ("SAGABUS_OUTBOXES", "{}", "SAGABUS_OUTBOXES"),
        ("SAGABUS_OUTBOXES", '{"a": "mysql://x"}', "SAGABUS_OUTBOXES"),
        ("SAGABUS_OUTBOXES", '{"a": "postgresql://x/y", "b": "postgresql://x/y"}', "twice"),
        ("SAGABUS_RELAY_LEASE_MARGIN_MS", "2000", "half a lease"),
        ("SAGABUS_RELAY_LEASE_MS", "4000", "must not exceed 4500 ms"),
    ],
)
def test_bad_settings_are_named_before_any_connection(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    good = {
        "SAGABUS_KAFKA": "127.0.0.1:1",
        "SAGABUS_POSTGRES": "postgresql://u:hidden@h/relay",
        "SAGABUS_OUTBOXES": '{"orders": "postgresql://u:hidden@h/orders"}',
    }
    for name, text in {**good, variable: value}.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(SettingsError, match=says) as caught:
        load(RelaySettings)
    assert "hidden" not in str(caught.value)
    monkeypatch.delenv(variable)
    for name, text in good.items():
        monkeypatch.setenv(name, text)
    assert build(load(RelaySettings)).loops
