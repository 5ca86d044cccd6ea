"""News from the API's stream of status changes, for a command that looks again on each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from sagabus_cli import ApiAddress
from sagabus_client import ApiRefused, ApiUnreachable, Followed, HttpClient
from sagabus_orchestrator.commands.office.ports import Outages

__all__ = ["listen"]

_SLOW_LOOK_S: Final = 10.0
"""How late a watcher sees what is no change of status: a pause, a step on the way."""
_GATHER_S: Final = 0.2
"""Changes within this time are one piece of news: a burst must not draw hundreds of pages."""


def listen(address: ApiAddress, followed: Followed, outages: Outages) -> Iterator[None]:
    """Yield when the stream has opened, on every change, and every ten seconds.

    Between two pieces of news nothing is read: the connection keeps what comes meanwhile. Raises
    `ApiUnreachable` once an outage has outlasted patience, `ApiRefused`.
    """
    ears = _Ears(address, followed, outages)
    with asyncio.Runner() as runner:  # its end also ends the stream
        while True:
            runner.run(ears.hear())
            yield


class _Ears:
    """One stream, listened to in pieces."""

    def __init__(self, address: ApiAddress, followed: Followed, outages: Outages) -> None:
        self._address = address
        self._followed = followed
        self._outages = outages
        self._fresh = asyncio.Event()
        self._stream: asyncio.Task[None] | None = None

    async def hear(self) -> None:
        """Return after some news, or a while."""
        stream = self._stream = self._stream or asyncio.create_task(self._follow())
        fresh = asyncio.create_task(self._fresh.wait())
        await asyncio.wait(
            {stream, fresh}, timeout=_SLOW_LOOK_S, return_when=asyncio.FIRST_COMPLETED
        )
        if stream.done():
            stream.result()
        if fresh.done():
            await asyncio.sleep(_GATHER_S)
        fresh.cancel()
        self._fresh.clear()

    async def _follow(self) -> None:
        address = self._address
        async with HttpClient(address.url, api_key=address.key, token=address.token) as http:
            while True:
                await self._follow_by(http)

    async def _follow_by(self, http: HttpClient) -> None:
        outage_s = self._outages.outage_s
        try:
            async for _ in http.follow(self._followed, outage_s=outage_s, on_state=self._state):
                self._fresh.set()
        except ApiRefused as error:
            if error.code != "events_gone":
                raise
            # What came behind the last event is in the archive: the page is read anew.
            self._fresh.set()

    def _state(self, error: ApiUnreachable | None) -> None:
        if error is not None:
            self._outages.begun(error)
            return
        self._outages.over()
        self._fresh.set()
