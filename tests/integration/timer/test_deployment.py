"""The timer as it is deployed: schema file, rights of its role."""

import secrets
from importlib.resources import files

import asyncpg

from sagabus_store import describe_schema, migrate, roles
from sagabus_testkit import LocalStack
from sagabus_timer.app import COMPONENTS, build
from sagabus_timer.config import TimerSettings

from .support import Bench, saga, timing


async def test_the_schema_file_equals_the_sum_of_the_migrations(
    stack: LocalStack, database: str, topic_prefix: str
) -> None:
    name = f"{topic_prefix}_steps"
    steps = stack.postgres.create_database(name)
    await migrate(steps, [COMPONENTS[1]])
    from_file, from_steps = await asyncpg.connect(database), await asyncpg.connect(steps)
    await from_file.execute(files("sagabus_timer").joinpath("sql/schema.sql").read_text())
    lines = await describe_schema(from_file)
    assert lines == await describe_schema(from_steps)
    assert len(lines) > 6
    await from_file.close()
    await from_steps.close()
    stack.postgres.drop_database(name)


async def test_the_rights_of_its_role_suffice(timer: Bench) -> None:
    role = f"timer_{secrets.token_hex(4)}"
    owner = await asyncpg.connect(timer.dsn)
    await owner.execute(f"create role {role} login password 'secret'")
    await roles.grant(owner, COMPONENTS, profile="app", role=role)
    user = timer.dsn.split("//")[1].split("@")[0]
    settings = timer.settings(
        postgres=timer.dsn.replace(user, f"{role}:secret"),
        migrate_on_start="false",  # as where a deployment job migrates: this role may not
    )
    async with timing(settings):
        await timer.send([await timer.request(1, 1, None, ce_time_ms=0)])
        await timer.arm(2, 1, await timer.now_ms())
        await timer.until_fired(1)
    assert await timer.fired() == [(saga(2), 1)]
    assert any(record.topic.endswith(".dlt") for record in await timer.written())
    await owner.execute(f"drop owned by {role}; drop role {role}")
    await owner.close()


def test_building_connects_to_nothing() -> None:
    settings = TimerSettings.model_validate(
        {"kafka": "127.0.0.1:1", "postgres": "postgresql://u@127.0.0.1:1/none"}
    )
    assert {loop.name for loop in build(settings).loops} == {"requests", "firing", "housekeeping"}
