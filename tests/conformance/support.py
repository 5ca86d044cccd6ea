"""What the conformance tests share."""

import asyncio
from dataclasses import dataclass

from sagabus_testkit.stack.process import ProcessControl


@dataclass(frozen=True)
class ProcessKiller:
    """Kills with SIGKILL and starts again, without waiting until it is ready."""

    process: ProcessControl

    async def kill(self) -> None:
        await asyncio.to_thread(self.process.kill)

    async def restart(self) -> None:
        await asyncio.to_thread(self.process.spawn)
