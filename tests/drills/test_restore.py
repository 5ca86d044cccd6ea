"""The orchestrator's database is set back by a minute; deploy/runbooks/restore-orchestrator.md."""

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from sagabus_bus import TopicAdmin
from sagabus_core.vocabulary import SagaStatus
from sagabus_testkit import LocalStack, eventually
from sagabus_testkit.faults import PostgresBackup, hold, rewind_group
from sagabus_testkit.orders import Pace, consumer_groups
from sagabus_testkit.system import Servers, System

from .support import LOGS, Book, Load, Site, mixed_orders

pytestmark = pytest.mark.drill
ENDED = {SagaStatus.COMPLETED, SagaStatus.COMPENSATED}
LOST_S = 60.0
MARGIN_MS = 60_000
"""How much earlier than the restored instant the topics are read again."""


class Restored:
    """The steps of the runbook."""

    def __init__(self, site: Site, backup: PostgresBackup) -> None:
        self.site = site
        self.system = site.system
        self.backup = backup
        self.postgres = site.system.servers.postgres_of("orchestrator")

    async def set_back(self, instant: str) -> None:
        # The relay goes on: it may have a round of the lost minute in hand.
        await asyncio.to_thread(self.system.kill, "orchestrator")
        await asyncio.to_thread(self.backup.restore, self.postgres, instant)

    async def rewind(self, instant: str) -> None:
        text = f"select (extract(epoch from '{instant}'::timestamptz) * 1000)::bigint"
        to_ms = int(str(await asyncio.to_thread(self.postgres.ask, text))) - MARGIN_MS
        group = f"{self.system.topics.prefix}sagabus-orchestrator"
        topics = consumer_groups(self.system)[group]

        async def without_members() -> bool:
            async with TopicAdmin(self.system.connection) as admin:
                return not (await admin.group(group)).alive

        await eventually(without_members, within=30)
        await rewind_group(self.system.connection, group, topics, to_ms)

    async def start(self, mode: str) -> None:
        await asyncio.to_thread(self.system.end, "orchestrator")
        self.system.reconfigure("orchestrator", {"SAGABUS_RECOVERY_MODE": mode})
        await asyncio.to_thread(self.system.restart, "orchestrator")

    async def has_read_all(self) -> bool:
        group = f"{self.system.topics.prefix}sagabus-orchestrator"
        async with TopicAdmin(self.system.connection) as admin:
            lags = await admin.lag(group, consumer_groups(self.system)[group])
        return not any(lag.behind for lag in lags)

    async def has_nothing_overdue(self) -> bool:
        query = (
            "select count(*) from saga where armed_at_ms < "
            "(extract(epoch from clock_timestamp()) * 1000)::bigint - 5000"
        )
        name = f"{self.system.name}_orchestrator"
        return await asyncio.to_thread(self.postgres.ask, query, name) == 0

    async def leftovers(self) -> list[dict[str, Any]]:
        done = await asyncio.to_thread(self.system.command, "recovery", "list", "--json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["early"]
        return found


@pytest.fixture
def restorable(stack: LocalStack, book: Book) -> Iterator[Restored]:
    with (
        PostgresBackup() as backup,
        LocalStack(f"restore-{os.getpid()}", postgres_settings=backup.settings) as second,
    ):
        servers = Servers(
            stack.kafka.bootstrap, stack.postgres, elsewhere={"orchestrator": second.postgres}
        )
        with System(servers, LOGS / "restore", name="restore") as system:
            site = Site(stack, system.start(), book)
            site.publish()
            backup.take(second.postgres)
            yield Restored(site, backup)


async def test_the_orchestrator_is_restored_to_a_minute_ago(restorable: Restored) -> None:
    async def lose_a_minute() -> None:
        instant = await asyncio.to_thread(restorable.backup.now, restorable.postgres)
        await hold(LOST_S)
        await restorable.set_back(instant)
        await restorable.rewind(instant)
        await restorable.start("replay")
        await eventually(restorable.has_read_all, within=60)
        await restorable.start("settle")
        await eventually(restorable.has_nothing_overdue, within=120)
        await restorable.start("off")

    orders = mixed_orders("restore", 120)
    load = Load(orders, Pace(chunk=2, every_s=1.0, within_s=150))
    await restorable.site.drill("restore", lose_a_minute, load)

    left = await restorable.leftovers()
    restorable.site.book.add({"deferred": len(left)})
    # Polls of before, whose question was answered otherwise since: evidence, nobody waits for it.
    assert [each for each in left if each["saga_status"] not in ENDED] == []
