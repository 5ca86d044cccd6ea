"""A hold keeps back what it names, breaks no invariant, and changes no end: on the engine alone."""

import random
from collections import deque
from uuid import UUID

import pytest

from sagabus_core.engine import Operation, ResultReceived, Resume, decide
from sagabus_core.testing import SagaDriver, compensatable, document, pivot, retriable
from sagabus_core.vocabulary import Control, ResultStatus, SagaStatus
from sagabus_orchestrator.entry import Entry
from sagabus_orchestrator.holds import Hold, Holds

STEPS = {
    "reserve": compensatable(participant="inventory"),
    "charge": compensatable(participant="payment"),
    "ship": pivot(participant="shipping"),
    "confirm": retriable(participant="inventory"),
}


def hold(target: str, name: str, tenant: str = "") -> Hold:
    return Hold(str(UUID(int=7)), target, name, tenant, "ada", "fire")


def saga() -> SagaDriver:
    return SagaDriver(document(STEPS, *STEPS))


@pytest.mark.parametrize(
    ("which", "stops"),
    [
        (hold("workflow", "order"), True),
        (hold("workflow", "order", "acme"), True),
        (hold("workflow", "order", "other"), False),
        (hold("workflow", "refund"), False),
        (hold("participant", "inventory"), True),
        (hold("participant", "payment"), False),
        (hold("participant", "inventory", "other"), False),
    ],
)
def test_what_a_hold_stops(which: Hold, stops: bool) -> None:
    begun = saga()
    assert which.stops(begun.snapshot, begun.last) is stops
    assert (Holds([which]).stopping(begun.snapshot, begun.last) is which) is stops


def test_what_issues_nothing_is_not_stopped() -> None:
    begun = saga()
    for step in ("reserve", "charge", "ship"):
        begun.answer(step, "SUCCEEDED")
    event = ResultReceived(
        "e", "confirm", begun.sent[-1].phase, 1, ResultStatus.SUCCEEDED, None, None
    )
    decision = decide(begun.definition, begun.snapshot, event, begun.now_at_ms)
    assert decision.snapshot.status is SagaStatus.COMPLETED
    assert not hold("workflow", "order").stops(begun.snapshot, decision)


class Player:
    """Participants that answer in a random order, an operator who holds and releases."""

    def __init__(self, seed: int, holds: list[Hold]) -> None:
        self.chance = random.Random(seed)
        self.refuses = self.chance.choice(["reserve", "charge", "ship", ""])
        self.saga = saga()
        self.holds = Holds(holds)
        self.deferred: deque[ResultReceived] = deque()
        self.issued = list(self.saga.last.commands)
        self.answered = 0

    def answer(self) -> ResultReceived | None:
        """Return the answer to the next command, if there is one."""
        if self.answered == len(self.issued):
            return None
        command = self.issued[self.answered]
        self.answered += 1
        refused = command.activation == self.refuses and command.phase == "EXECUTE"
        status = ResultStatus.REJECTED if refused else ResultStatus.SUCCEEDED
        name = f"answer {self.answered}"
        place = (command.activation, command.phase, command.attempt)
        return ResultReceived(name, *place, status, command.target, None)

    def receive(self, event: ResultReceived) -> None:
        """Do as the desk does."""
        if self.saga.snapshot.control is Control.PAUSED:
            self.deferred.append(event)
            return
        before = self.saga.snapshot
        decision = decide(self.saga.definition, before, event, self.saga.now_at_ms)
        found = self.holds.stopping(before, decision)
        if found is None:
            self.issued += self.saga.apply(event).commands
            return
        entry = Entry.new("", self.saga.definition, before, "s")
        pause = found.pause(entry, self.saga.now_at_ms)
        assert pause.commands == ()
        assert pause.snapshot.control is Control.PAUSED
        self.saga.snapshot = pause.snapshot
        self.deferred.append(event)

    def release(self) -> None:
        """Do as the releaser does."""
        self.holds = Holds()
        if self.saga.snapshot.control is not Control.PAUSED:
            return
        while self.deferred:
            assert self.saga.apply(self.deferred.popleft()).commands == ()
        self.issued += self.saga.apply(Resume(Operation("release", "ada", "mended"))).commands

    def run(self) -> None:
        while (event := self.answer()) is not None:
            self.receive(event)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", ["inventory", "payment", "shipping"])
def test_held_sagas_issue_nothing_held_and_end_as_all_others(seed: int, name: str) -> None:
    free, held = Player(seed, []), Player(seed, [hold("participant", name)])
    begun = len(held.issued)
    free.run()
    held.run()
    assert name not in {command.participant for command in held.issued[begun:]}
    held.release()
    held.run()
    assert held.saga.status is free.saga.status
    assert held.saga.status.is_terminal
    assert [c.command_id for c in held.issued] == [c.command_id for c in free.issued]
