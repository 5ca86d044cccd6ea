"""What every stage has to do: given a workflow and what goes wrong, how the saga ends.

Each scenario is written once, in the words of `SagaKit` (`stub`, `on`), and played in memory and on
real servers. Answers of handlers that are not scripted are good ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sagabus_core.testing import parallel
from sagabus_core.vocabulary import Phase
from sagabus_participant import Halted, Rejected, Succeeded, Unknown
from sagabus_testkit.memory import HONEST, Act, At, Books, Crash, InDoubt, Saga

from .workflows import MIDDLE, SHORT, STEPS, booking


class Stage(Protocol):
    """What a scenario is scripted on."""

    def stub(
        self,
        step: str,
        *execute: Act,
        compensate: Sequence[Act] = ...,
        cancel: Sequence[Act] = ...,
        resolve: Sequence[Act] = ...,
    ) -> None: ...

    def on(
        self, step: str, phase: Phase | str = ..., attempt: int | None = ..., target: Any = ...
    ) -> At: ...


@dataclass(frozen=True)
class Scenario:
    """A story: `given` scripts it, `then` judges the end; the truth of the books always holds."""

    story: str
    document: dict[str, Any]
    given: Callable[[Stage], None]
    then: Callable[[Saga], None]
    deadline_ms: int | None = None

    @property
    def name(self) -> str:
        return str(self.document["workflow"])

    def judge(self, saga: Saga, books: Books) -> None:
        self.then(saga)
        applied = {"COMPLETED": len(saga.done), "COMPENSATED": 0}
        if saga.status.value in applied:
            assert books.standing == applied[saga.status.value], "the books tell another story"


SCENARIOS: list[Scenario] = []
LATE_MS = 2 * MIDDLE


def scenario(
    story: str,
    document: dict[str, Any],
    then: Callable[[Saga], None],
    deadline_ms: int | None = None,
) -> Callable[[Callable[[Stage], None]], None]:
    def decorate(given: Callable[[Stage], None]) -> None:
        SCENARIOS.append(Scenario(story, document, given, then, deadline_ms))

    return decorate


def completed(*calls: str, **more: Any) -> Callable[[Saga], None]:
    def then(saga: Saga) -> None:
        saga.expect("COMPLETED", done=STEPS, undone=[], **more)
        contains(saga, calls)

    return then


def compensated(*undone: str, calls: Sequence[str] = (), **more: Any) -> Callable[[Saga], None]:
    def then(saga: Saga) -> None:
        saga.expect("COMPENSATED", undone=undone, **more)
        contains(saga, calls)

    return then


def manual(reason: str) -> Callable[[Saga], None]:
    return lambda saga: saga.expect("MANUAL_INTERVENTION", reason=reason)


def contains(saga: Saga, calls: Sequence[str]) -> None:
    """Check how often handlers were called: `pay.execute x1`."""
    for wanted in calls:
        name, _, times = wanted.partition(" x")
        assert saga.calls.count(name) == int(times), f"{wanted}\n{saga.calls}\n{saga.timeline}"


@scenario("all goes well", booking("happy"), completed(*(f"{s}.execute x1" for s in STEPS)))
def _(stage: Stage) -> None:
    del stage


@scenario(
    "a rejection undoes what was done, last first",
    booking("rejected"),
    compensated("hold", "reserve", reason="step_rejected", calls=["ship.execute x0"]),
)
def _(stage: Stage) -> None:
    stage.stub("pay", Rejected("card_declined"))


@scenario(
    "the pivot is rejected: everything is undone",
    booking("pivot-rejected"),
    compensated("pay", "hold", "reserve", calls=["confirm.execute x0"]),
)
def _(stage: Stage) -> None:
    stage.stub("ship", Rejected("no_way"))


@scenario(
    "a lost command times out, and CANCEL confirms that it never ran",
    booking("lost-command", late="hold"),
    compensated("reserve", states={"hold": "CANCELLED"}, calls=["hold.execute x0"]),
)
def _(stage: Stage) -> None:
    stage.on("hold").lose_command()


@scenario(
    "a lost CANCEL is asked again",
    booking("lost-cancel", late="hold", cancel_ms=MIDDLE),
    compensated("reserve", states={"hold": "CANCELLED"}),
)
def _(stage: Stage) -> None:
    stage.on("hold").lose_command()
    stage.on("hold", "CANCEL").lose_command()


@scenario(
    "a command that comes after its time is never started",
    booking("expired", late="reserve"),
    compensated(states={"reserve": "CANCELLED"}, calls=["reserve.execute x0"]),
)
def _(stage: Stage) -> None:
    stage.on("reserve").delay_command(2 * SHORT)


@scenario(
    "nor one that comes before the RESOLVE which asks about it",
    booking("expired-first", late="pay"),
    compensated("hold", "reserve", calls=["pay.execute x0", "pay.resolve x0"]),
)
def _(stage: Stage) -> None:
    stage.on("pay").delay_command(2 * SHORT)
    stage.on("pay", "RESOLVE").delay_command(2 * SHORT)


@scenario(
    "a command that its CANCEL has overtaken is fenced",
    booking("fenced", parallel("both", one="reserve", other="pay"), "ship"),
    compensated(states={"both.one.reserve": "CANCELLED"}, calls=["both.one.reserve.execute x0"]),
)
def _(stage: Stage) -> None:
    stage.on("reserve").overtaken_by("CANCEL")
    stage.stub("pay", Rejected("card_declined"))


@scenario(
    "an answer that is lost is learnt by CANCEL, and accepted",
    booking("lost-answer", late="reserve", late_ms=MIDDLE),
    completed("reserve.execute x1"),
)
def _(stage: Stage) -> None:
    stage.on("reserve").lose_answer()


@scenario(
    "the same under compensate_late_success: the late success is undone",
    booking("lost-answer-strict", late="reserve", late_ms=MIDDLE, policy="compensate_late_success"),
    compensated("reserve", done=["reserve"]),
)
def _(stage: Stage) -> None:
    stage.on("reserve").lose_answer()


@scenario(
    "an unknown outcome is resolved: it was applied",
    booking("unknown-applied"),
    completed("pay.execute x1", "pay.resolve x1"),
)
def _(stage: Stage) -> None:
    stage.stub("pay", InDoubt({"charge": 1}))


@scenario(
    "an unknown outcome is resolved: it was not, and never will be",
    booking("unknown-nothing"),
    compensated("hold", "reserve", states={"pay": "REJECTED"}),
)
def _(stage: Stage) -> None:
    stage.stub("pay", Unknown())


@scenario(
    "nobody knows for a while: RESOLVE is asked until somebody does",
    booking("unknown-long"),
    completed("pay.execute x1", "pay.resolve x3"),
)
def _(stage: Stage) -> None:
    stage.stub("pay", InDoubt(), resolve=[Unknown(), Unknown(), HONEST])


@scenario(
    "nobody ever knows: a person has to decide",
    booking("unknown-ever", budget_ms=1_500),
    manual("resolution_budget_exhausted"),
)
def _(stage: Stage) -> None:
    stage.stub("pay", InDoubt(), resolve=[Unknown()])


@scenario(
    "every command comes twice: one effect each",
    booking("twice"),
    completed(*(f"{step}.execute x1" for step in STEPS)),
)
def _(stage: Stage) -> None:
    for step in STEPS:
        stage.on(step).repeat_command(300)


@scenario("every answer comes twice, too", booking("twice-answered"), completed())
def _(stage: Stage) -> None:
    for step in STEPS:
        stage.on(step).repeat_answer(300)


@scenario(
    "undo commands and answers come twice",
    booking("twice-undone"),
    compensated("hold", "reserve", calls=["reserve.compensate x1", "hold.compensate x1"]),
)
def _(stage: Stage) -> None:
    stage.stub("pay", Rejected("card_declined"))
    for step in ("hold", "reserve"):
        stage.on(step, "COMPENSATE").repeat_command(100).repeat_answer(100)


@scenario(
    "a late success counts where the policy accepts it",
    booking("late-accepted", late="pay", late_ms=MIDDLE),
    completed("pay.execute x1"),
)
def _(stage: Stage) -> None:
    stage.on("pay").delay_answer(LATE_MS)


@scenario(
    "a late success is undone where the policy says so",
    booking("late-undone", late="pay", late_ms=MIDDLE, policy="compensate_late_success"),
    compensated("pay", "hold", "reserve", done=["reserve", "hold", "pay"]),
)
def _(stage: Stage) -> None:
    stage.on("pay").delay_answer(LATE_MS)


@scenario(
    "a slow call is overtaken by CANCEL, which learns that it is too late",
    booking("slow", late="hold", late_ms=MIDDLE),
    completed("hold.execute x1", "hold.cancel x1"),
)
def _(stage: Stage) -> None:
    stage.on("hold").take(LATE_MS)


@scenario(
    "the deadline passes while the pivot runs: its late success revokes the abort",
    booking("pivot-late", "ship", "confirm"),
    lambda saga: saga.expect("COMPLETED", done=["ship", "confirm"]),
    deadline_ms=MIDDLE,
)
def _(stage: Stage) -> None:
    stage.on("ship").take(LATE_MS)


@scenario("a callback brings the outcome", booking("callback"), completed("ship.execute x1"))
def _(stage: Stage) -> None:
    stage.stub("ship", InDoubt(), resolve=[Unknown()])
    stage.on("ship").call_back(Succeeded(), 700)


@scenario(
    "a callback brings a refusal", booking("callback-no"), compensated("pay", "hold", "reserve")
)
def _(stage: Stage) -> None:
    stage.stub("ship", Unknown(), resolve=[Unknown()])
    stage.on("ship").call_back(Rejected("address_refused"), 700)


@scenario(
    "behind the pivot a step is tried until it succeeds",
    booking("retriable"),
    completed("confirm.execute x3"),
)
def _(stage: Stage) -> None:
    stage.stub("confirm", Rejected("busy"), Rejected("busy"), Succeeded())


@scenario(
    "killed between the call and its receipt: one effect, found out about",
    booking("killed-after"),
    completed("pay.execute x1", "pay.resolve x1"),
)
def _(stage: Stage) -> None:
    stage.on("pay").crash()


@scenario(
    "killed between the intent and the call: nothing was applied, and nothing will be",
    booking("killed-before"),
    compensated("hold", "reserve", calls=["pay.execute x0"]),
)
def _(stage: Stage) -> None:
    stage.on("pay").crash(Crash.BEFORE_CALL)


@scenario(
    "an undo in doubt is resolved: it has happened",
    booking("undo-in-doubt"),
    compensated("hold", "reserve", calls=["hold.compensate x1"]),
)
def _(stage: Stage) -> None:
    stage.stub("hold", compensate=[InDoubt()])
    stage.stub("pay", Rejected("card_declined"))


@scenario(
    "an undo in doubt is resolved: it has not, and is done again",
    booking("undo-again"),
    compensated("hold", "reserve", calls=["hold.compensate x2"]),
)
def _(stage: Stage) -> None:
    stage.stub("hold", compensate=[Unknown(), Succeeded()])
    stage.stub("pay", Rejected("card_declined"))


@scenario("a halted step waits for a person", booking("halted"), manual("step_halted"))
def _(stage: Stage) -> None:
    stage.stub("pay", Halted("ask_olga"))


@scenario("a halted undo waits for a person", booking("undo-halted"), manual("compensation_halted"))
def _(stage: Stage) -> None:
    stage.stub("hold", compensate=[Halted("ask_olga")])
    stage.stub("pay", Rejected("card_declined"))


@scenario(
    "a bug in an external handler is UNKNOWN, never a guess",
    booking("bug"),
    compensated("hold", "reserve", calls=["pay.execute x1", "pay.resolve x1"]),
)
def _(stage: Stage) -> None:
    stage.stub("pay", KeyError("a bug"))


@scenario("a bug in a local handler halts", booking("bug-local"), manual("step_halted"))
def _(stage: Stage) -> None:
    stage.stub("reserve", KeyError("a bug"))


@scenario(
    "a rejection in one branch undoes the other",
    booking("branches", parallel("both", one="reserve", other=["hold", "pay"]), "ship"),
    lambda saga: saga.expect("COMPENSATED", states={"both.other.pay": "REJECTED"}),
)
def _(stage: Stage) -> None:
    stage.stub("pay", Rejected("card_declined"))
