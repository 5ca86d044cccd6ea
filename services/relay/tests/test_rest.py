"""Between two looks: the gap after work, sleep once the bell is held, polling without it."""

import asyncio

import pytest

from sagabus_relay.pace import Pace, PacePolicy
from sagabus_relay.rest import BUSY_ROUNDS, Look, NoBell, Rest, Ringing
from sagabus_relay.rings import QUIET_MS, Rings
from sagabus_store import StoreUnavailable

EMPTY, WORK, HELD_TOPIC = Look(0, 0, 10, 1), Look(3, 3, 10, 1), Look(3, 0, 10, 1)


class Bell:
    """A bell whose state the test sets."""

    def __init__(self) -> None:
        self.held = False
        self.free = True
        self.rings = True
        self.rung = 0
        self.log: list[str] = []

    def clear(self) -> None: ...

    async def hold(self) -> bool:
        self.log.append("hold")
        if self.log.count("hold") > 1 and not self.rings:
            raise StoreUnavailable("x", "x")
        self.held = self.free
        return self.held

    async def let_go(self) -> None:
        self.log.append("let_go")
        self.held = False

    async def wait(self, ms: float) -> bool:
        self.log.append("sleep")
        return self.rings

    def wake(self) -> None: ...

    async def close(self) -> None:
        self.log.append("close")
        self.held = False


class Time:
    """A clock that goes on by `step_ms` with every look at it, and as the test sets it."""

    def __init__(self, step_ms: float) -> None:
        self.now_ms, self.step_ms = 0.0, step_ms

    def __call__(self) -> float:
        self.now_ms += self.step_ms
        return self.now_ms


def rest(bell: Bell | NoBell, server: Rings | None = None, clock: Time | None = None) -> Rest:
    pace, ringing = Pace(PacePolicy(0, 0.01, 0.01)), Ringing(bell, server or Rings())
    return Rest(pace, ringing, asyncio.Event(), clock or Time(10_000))


async def run(subject: Rest, *looks: Look, may_sleep: bool = True) -> None:
    for look in looks:
        subject.before()
        await subject.after(look, may_sleep=may_sleep)


async def test_an_empty_look_takes_the_bell_and_only_a_second_one_sleeps() -> None:
    bell = Bell()
    await run(rest(bell), WORK, EMPTY)
    assert bell.log == ["hold"]
    await run(rest(bell), EMPTY)
    assert bell.log == ["hold", "sleep"]


async def test_a_bell_that_somebody_else_has_is_no_reason_to_sleep() -> None:
    bell = Bell()
    bell.free = False
    await run(rest(bell), EMPTY, EMPTY)
    assert bell.log == ["hold", "hold"]


@pytest.mark.parametrize(("look", "may_sleep"), [(HELD_TOPIC, True), (EMPTY, False)])
async def test_what_waits_for_a_time_is_not_slept_over(look: Look, may_sleep: bool) -> None:
    bell = Bell()
    await run(rest(bell), EMPTY, look, may_sleep=may_sleep)
    assert "sleep" not in bell.log


async def test_sustained_work_lets_the_bell_go() -> None:
    bell = Bell()
    await run(rest(bell), EMPTY, *[WORK] * (BUSY_ROUNDS - 1))
    assert bell.held
    await run(rest(bell), *[WORK] * BUSY_ROUNDS)
    assert not bell.held


async def test_rows_that_nobody_rang_for_mean_a_new_bell() -> None:
    bell = Bell()
    bell.rings = False
    await run(rest(bell), EMPTY, EMPTY, WORK)
    assert bell.log == ["hold", "sleep", "close"]


async def test_a_bell_that_is_away_is_given_up_and_the_outbox_polled() -> None:
    bell = Bell()
    bell.rings, bell.free = False, False
    await run(rest(bell), EMPTY, EMPTY)
    assert bell.log == ["hold", "hold", "close"]


async def test_a_bell_that_stays_away_is_tried_ever_more_rarely() -> None:
    bell = Bell()
    bell.rings, bell.free = False, False
    await run(rest(bell), *[EMPTY] * 40)  # the clock of a look is ten seconds
    assert bell.log.count("hold") < 20


async def test_without_a_bell_nobody_sleeps() -> None:
    await run(rest(NoBell()), EMPTY, EMPTY, WORK)


@pytest.mark.parametrize(
    ("rung", "commit_ms", "too_many"),
    [(600, 0.1, False), (80, 5.0, False), (120, 5.0, True), (60, 10.0, True)],
)
def test_rings_are_too_many_by_the_time_that_their_commits_take(
    rung: int, commit_ms: float, too_many: bool
) -> None:
    clock = Time(0)
    server = Rings(clock)
    for _ in range(10):
        clock.now_ms += 100
        server.note(rung // 20, commit_ms)
        server.note(rung // 20, None)  # another outbox of the same server
    assert server.too_many is too_many
    clock.now_ms += 1_000
    server.note(0, None)
    assert not server.too_many


async def test_where_rings_slow_down_the_server_its_outboxes_are_polled_for_a_while() -> None:
    clock = Time(0)
    server = Rings(clock)
    loud, silent = Bell(), Bell()
    subjects = rest(loud, server, clock), rest(silent, server, clock)
    for subject in subjects:
        await run(subject, EMPTY)
    loud.rung, clock.now_ms = 400, 1_000
    for subject in subjects:
        await run(subject, Look(1, 1, 10, 1, commit_ms=5.0), EMPTY)
    assert (loud.held, silent.held) == (False, True)
    silent.rung = 1
    await run(subjects[1], WORK)
    assert not silent.held
    clock.now_ms += QUIET_MS - 100
    await run(subjects[0], EMPTY, EMPTY)
    assert not loud.held
    clock.now_ms += 100
    await run(subjects[0], EMPTY)
    assert loud.held
