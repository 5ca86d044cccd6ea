"""The disk of one database is full: the outbox and the books of a participant cannot grow."""

import asyncio
from collections.abc import Iterator

import pytest

from sagabus_testkit import eventually
from sagabus_testkit.faults import SmallDisk, hold

from .support import Site

pytestmark = pytest.mark.drill
USERS = ("inventory", "relay")
"""Who is connected to the inventory's database, which moves to the small disk and back."""
FULL_S = 8.0


@pytest.fixture
def disk(site: Site) -> Iterator[SmallDisk]:
    def leave() -> None:
        for name in USERS:
            site.system.end(name)

    leave()
    with SmallDisk(
        site.stack.postgres, f"{site.system.name}_inventory", megabytes=24
    ) as small_disk:
        for name in USERS:
            site.system.restart(name)
        yield small_disk
        leave()


async def test_a_disk_is_full_for_one_database(site: Site, disk: SmallDisk) -> None:
    log = site.system.log_path("inventory")

    async def fill() -> None:
        await asyncio.to_thread(disk.fill)
        await eventually(lambda: "53100" in log.read_text(), what="the disk is full")
        await hold(FULL_S)
        disk.free()

    await site.drill("disk-full", fill)
