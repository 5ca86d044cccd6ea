"""What the conformance tests share."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import asyncpg

from sagabus_testkit.stack.process import ProcessControl


@dataclass(frozen=True)
class Killing:
    """Kills with SIGKILL and begins to start again, without waiting until it is ready."""

    end: Callable[[], None]
    begin: Callable[[], None]

    @classmethod
    def of(cls, process: ProcessControl) -> "Killing":
        return cls(process.kill, process.spawn)

    async def kill(self) -> None:
        await asyncio.to_thread(self.end)

    async def restart(self) -> None:
        await asyncio.to_thread(self.begin)


@dataclass(frozen=True)
class Books:
    """Counts applied effects by a query for (effect id, times) on the participant's own tables."""

    dsn: str
    query: str

    async def count(self) -> Mapping[str, int]:
        connection = await asyncpg.connect(self.dsn)
        try:
            return {str(key): times for key, times in await connection.fetch(self.query)}
        finally:
            await connection.close()
