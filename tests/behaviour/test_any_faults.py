"""Whatever goes wrong: a saga ends, or waits for a person, and its end tells the truth.

Hypothesis scripts the network, the handlers and the kills; engine, SDK and kit run in memory.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagabus_core.testing import parallel
from sagabus_participant import Halted, Rejected, Succeeded, Unknown
from sagabus_testkit.memory import HONEST, Act, Crash, InDoubt, SagaKit

from .workflows import LOCAL, SHORT, STEPS, booking

FLOWS: Sequence[tuple[Any, ...]] = (
    STEPS,
    (parallel("both", one="reserve", other=["hold", "pay"]), "ship", "confirm"),
)
PLACES = [
    (s, p, t)
    for s in STEPS
    for p, t in [
        ("EXECUTE", None),
        ("CANCEL", None),
        ("COMPENSATE", None),
        ("RESOLVE", "EXECUTE"),
        ("RESOLVE", "COMPENSATE"),
    ]
]
DELAYS = st.sampled_from([0, 300, SHORT + 1, 5_000, 40_000])
LOCAL_ACTS: list[Act] = [Succeeded(), Rejected("no"), Halted("ask"), KeyError("bug"), OSError()]
ACTS: list[Act] = [*LOCAL_ACTS, Unknown(), InDoubt()]
UNDO_ACTS: list[Act] = [Succeeded(), Unknown(), InDoubt(), Halted("ask"), KeyError("bug")]
RESOLVE_ACTS: list[Act] = [HONEST, Unknown(), KeyError("bug")]


def then_good(acts: list[Act], good: Act) -> st.SearchStrategy[list[Act]]:
    """Return some acts, then a good one for ever."""
    return st.lists(st.sampled_from(acts), max_size=3).map(lambda some: [*some, good])


@st.composite
def kits(draw: st.DrawFn) -> SagaKit:
    policy = draw(st.sampled_from(["accept_late_success", "compensate_late_success"]))
    late = draw(st.sampled_from(["", *STEPS[:4]]))
    flow = draw(st.sampled_from(FLOWS))
    kit = SagaKit(booking("any", *flow, late=late, policy=policy))
    for step in STEPS:
        local = step in LOCAL
        kit.stub(
            step,
            *draw(then_good(LOCAL_ACTS if local else ACTS, Succeeded())),
            compensate=draw(then_good(UNDO_ACTS[:1] if local else UNDO_ACTS, Succeeded())),
            resolve=draw(then_good(RESOLVE_ACTS, HONEST)),
            local=local,
        )
    for _ in range(draw(st.integers(0, 6))):
        put_fault(draw, kit)
    return kit


def put_fault(draw: st.DrawFn, kit: SagaKit) -> None:
    step, phase, target = draw(st.sampled_from(PLACES))
    place = kit.on(step, phase, draw(st.sampled_from([1, 2, None])), target)
    match draw(st.integers(0, 8)):
        case 0:
            place.lose_command()
        case 1:
            place.lose_answer()
        case 2:
            place.delay_command(draw(DELAYS))
        case 3:
            place.delay_answer(draw(DELAYS))
        case 4:
            place.repeat_command(draw(DELAYS))
        case 5:
            place.repeat_answer(draw(DELAYS))
        case 6:
            place.overtaken_by(draw(st.sampled_from(["CANCEL", "RESOLVE"])))
        case 7:
            place.crash(draw(st.sampled_from(Crash)))
        case _:
            place.take(draw(DELAYS))


@given(kit=kits(), deadline_ms=st.sampled_from([None, None, 1, 2_000, 50_000]))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_end_tells_the_truth(kit: SagaKit, deadline_ms: int | None) -> None:
    saga = asyncio.run(kit.run(deadline_ms=deadline_ms))

    assert saga.status.is_terminal or saga.status == "MANUAL_INTERVENTION", saga.timeline
    assert "conflict" not in (saga.reason or ""), saga.timeline
    assert "contradicts" not in saga.timeline, saga.timeline
    if saga.status == "COMPENSATED":
        assert kit.books.standing == 0, saga.timeline
    if saga.status == "COMPLETED":
        assert kit.books.standing == len(saga.done) == len(STEPS), saga.timeline
