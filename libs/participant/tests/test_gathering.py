"""Small writes become lots, and none of a lot suffers from its neighbours."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from sagabus_participant.gathering import Gathering
from sagabus_runtime.errors import InjectedFault
from sagabus_store import StoreUnavailable


@dataclass
class Ledger:
    """Writes that wait for `go`; what is in `bad` fails wherever it is, `held` while together."""

    began: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    bad: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    lots: list[list[int]] = field(default_factory=list)
    single: list[int] = field(default_factory=list)

    async def together(self, lot: Sequence[int]) -> list[int]:
        self.lots.append(list(lot))
        self.began.set()
        await self.go.wait()
        if self.held & set(lot):
            raise StoreUnavailable("store_unavailable", "somebody holds a lock")
        self._judge(lot)
        return [one * 10 for one in lot]

    async def alone(self, one: int) -> int:
        self.single.append(one)
        self._judge([one])
        if one in self.held:
            await asyncio.Event().wait()
        return one * 10

    def _judge(self, lot: Sequence[int]) -> None:
        if self.bad & set(lot):
            raise InjectedFault("boom", "bad")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def gathering(ledger: Ledger) -> Gathering[int, int]:
    return Gathering(ledger.together, ledger.alone, most=3)


async def test_what_comes_meanwhile_is_the_next_lot(
    ledger: Ledger, gathering: Gathering[int, int]
) -> None:
    first = asyncio.create_task(gathering.add(1))
    await ledger.began.wait()
    later = [asyncio.create_task(gathering.add(n)) for n in (2, 3, 4, 5)]
    asyncio.get_running_loop().call_soon(ledger.go.set)
    assert await first == 10
    assert await asyncio.gather(*later) == [20, 30, 40, 50]
    assert (ledger.lots, ledger.single) == ([[1], [2, 3, 4], [5]], [])
    assert await gathering.add(6) == 60


async def test_one_that_fails_or_waits_concerns_nobody_else(
    ledger: Ledger, gathering: Gathering[int, int]
) -> None:
    ledger.go.set()
    ledger.bad, ledger.held = {2}, {3}
    added = [asyncio.create_task(gathering.add(n)) for n in (1, 2, 3, 4)]
    assert (await added[0], await added[3]) == (10, 40)
    with pytest.raises(InjectedFault):
        await added[1]
    assert not added[2].done(), "what is held waits by itself"
    assert await gathering.add(5) == 50
    assert sorted(ledger.single) == [1, 2, 3]
    added[2].cancel()
    await gathering.aclose()


async def test_a_single_one_keeps_its_own_error(
    ledger: Ledger, gathering: Gathering[int, int]
) -> None:
    ledger.go.set()
    ledger.bad = {7}
    with pytest.raises(InjectedFault):
        await gathering.add(7)
    assert ledger.single == []


async def test_what_nobody_waits_for_is_not_written(
    ledger: Ledger, gathering: Gathering[int, int]
) -> None:
    first = asyncio.create_task(gathering.add(1))
    await ledger.began.wait()
    given_up, last = (asyncio.create_task(gathering.add(n)) for n in (2, 3))
    loop = asyncio.get_running_loop()
    loop.call_soon(given_up.cancel)
    loop.call_soon(ledger.go.set)
    assert (await first, await last) == (10, 30)
    assert ledger.lots == [[1], [3]]
