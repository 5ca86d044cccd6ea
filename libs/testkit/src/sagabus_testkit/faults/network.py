"""Fault proxies before a whole stack, driven from any thread like its servers are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from sagabus_testkit.faults.commits import CommitCutter, CommitFate
from sagabus_testkit.proxy import Flow, TcpProxy
from sagabus_testkit.stack import LocalStack, NotControllable, ProxiedListener
from sagabus_testkit.system import Servers

__all__ = ["DatabaseLine", "FaultyNetwork", "Line"]

T = TypeVar("T")
_WITHIN_S: Final = 30.0


class Line:
    """The way to one server: the verbs of `TcpProxy`, each done when the call returns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, proxy: TcpProxy) -> None:
        self._loop = loop
        self._proxy = proxy

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return self._proxy.connections

    def cut(self) -> None:
        """Reset every connection; new ones are welcome."""
        self._do(_later(self._proxy.cut))

    def refuse(self) -> None:
        """Reset every connection and refuse new ones."""
        self._do(self._proxy.refuse())

    def stall(self, *flows: Flow) -> None:
        """Forward nothing in these directions, none named: in both."""
        self._do(_later(lambda: self._proxy.stall(*flows)))

    def delay(self, seconds: float) -> None:
        """Hold back every chunk of bytes for so long."""
        self._do(_later(lambda: self._proxy.delay(seconds)))

    def restore(self) -> None:
        """Forward everything again, what was held back first."""
        self._do(self._proxy.restore())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WITHIN_S)


class DatabaseLine(Line):
    """The way to Postgres, which can also be lost during COMMIT."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cutter: CommitCutter) -> None:
        super().__init__(loop, cutter)
        self._cutter = cutter

    @property
    def commits_cut(self) -> int:
        """How many commits lost their connection so far."""
        return self._cutter.commits_cut

    def cut_commits(self, fate: CommitFate, times: int) -> None:
        """Let the next `times` commits lose their connection."""
        self._do(_later(lambda: self._cutter.cut_commits(fate, times)))


class FaultyNetwork:
    """Puts a proxy before Kafka and one before Postgres, in a thread of their own.

        with FaultyNetwork(stack) as network, System(network.servers, directory) as system:
            network.postgres.cut_commits(CommitFate.DONE, 20)
            network.kafka.stall("to_client")

    Services go through the proxies; the client of the tests and the reading of books go around
    them. Blocking, for any thread. Raises `NotControllable` for a Kafka that the environment
    names.
    """

    kafka: Line
    postgres: DatabaseLine

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty-network")
        self._proxies: list[TcpProxy] = []

    @property
    def servers(self) -> Servers:
        """Where a `System` finds its servers through the proxies."""
        return Servers(
            _proxied(self._stack).bootstrap,
            self._stack.postgres,
            self._proxies[1].port,
            self._stack.kafka.bootstrap,
        )

    def __enter__(self) -> Self:
        door = _proxied(self._stack)
        broker = TcpProxy(door.port, listen_port=door.advertised_port)
        cutter = CommitCutter(self._stack.postgres.port)
        self._proxies = [broker, cutter]
        self._thread.start()
        for proxy in self._proxies:
            self._run(proxy.start())
        self.kafka, self.postgres = Line(self._loop, broker), DatabaseLine(self._loop, cutter)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for proxy in self._proxies:
            self._run(proxy.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WITHIN_S)


async def _later(work: Callable[[], None]) -> None:
    work()


def _proxied(stack: LocalStack) -> ProxiedListener:
    if stack.kafka.proxied is None:
        raise NotControllable(
            "not_controllable", "the Kafka that SAGABUS_KAFKA names has no listener for a proxy"
        )
    return stack.kafka.proxied
