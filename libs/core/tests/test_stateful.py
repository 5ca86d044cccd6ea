"""Random valid definitions, correct participants, a bus that repeats and reorders, an operator.

Every decision is judged by the invariants inside the driver; the end by the ground truth: at
COMPLETED every effect stands exactly once, at COMPENSATED none that could be undone, and a
conflict is never reached.
"""

import contextlib
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sagabus_core.engine import (
    AttestedOutcome,
    AttestedUndo,
    Cancel,
    ForwardState,
    IssueCommand,
    Pause,
    RecordOutcome,
    ResultReceived,
    Resume,
    Retry,
    skipped,
)
from sagabus_core.errors import OperationRefused
from sagabus_core.payload import Payload
from sagabus_core.testing import (
    SagaDriver,
    World,
    choice,
    compensatable,
    document,
    parallel,
    pivot,
    retriable,
)
from sagabus_core.vocabulary import Control, ResultStatus, SagaStatus, TerminalStatus

WISHES = ["SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "REJECTED", "UNKNOWN", "HALTED"]
STEPS: dict[str, Any] = {
    "cancellable": compensatable(),
    "asked": compensatable(cancellable=False),
    "strict": compensatable(unknown_allowed=False),
    "late": compensatable(timeout_policy="compensate_late_success"),
    "late-asked": compensatable(cancellable=False, timeout_policy="compensate_late_success"),
    "harmless": compensatable(compensation="none"),
    "pivot": pivot(),
    "pivot-cancellable": pivot(cancellable=True),
    "must": retriable(),
}
BEFORE = ["cancellable", "asked", "strict", "late", "late-asked", "harmless"]


def bodies(steps: list[str]) -> st.SearchStrategy[list[Any]]:
    leaf = st.sampled_from(steps)
    node = st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(lambda x, y: parallel("par", x=[x], y=[y]), inner, inner),
            st.builds(lambda x, y: choice("pick", [x], yes=("flag", [y])), inner, inner),
        ),
        max_leaves=3,
    )
    return st.lists(node, min_size=1, max_size=3).map(_named)


def _named(nodes: list[Any]) -> list[Any]:
    """Give every sibling a name of its own."""
    result: list[Any] = []
    for number, node in enumerate(nodes):
        if isinstance(node, str):
            result.append({"step": node, "name": f"n{number}"})
        else:
            ((kind, content),) = node.items()
            result.append({kind: {**content, "name": f"n{number}"}})
    return result


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    flow = draw(bodies(BEFORE))
    if draw(st.booleans()):
        flow.append({"step": draw(st.sampled_from(["pivot", "pivot-cancellable"]))})
        flow.append(parallel("after", x=draw(bodies(["must"])), y=["must"]))
    contract = {"content_type": "application/json", "schema_id": "s", "set": {"flag": ""}}
    return document(STEPS, *flow, variables={"flag": "boolean"}, input=contract)


class Sagas(RuleBasedStateMachine):
    """One saga from start to a settled end."""

    @initialize(
        doc=documents(), flag=st.booleans(), deadline=st.sampled_from([None, 15_000, 90_000])
    )
    def begin(self, doc: dict[str, Any], flag: bool, deadline: int | None) -> None:
        body = b"true" if flag else b"false"
        start = Payload("application/json", "s", body)
        self.saga = SagaDriver(doc, payload=start, deadline_ms=deadline)
        must = {path for path, node in self.saga.definition.nodes.items() if node.step.retriable}
        self.world = World(retriable=frozenset(must))
        self.answers: list[ResultReceived] = []
        self.attested = False

    @rule(back=st.integers(0, 5), wish=st.sampled_from(WISHES))
    def participant(self, back: int, wish: str) -> None:
        self.handle(self.saga.sent[-1 - back % len(self.saga.sent)], wish)

    def handle(self, command: IssueCommand, wish: str) -> None:
        word = self.world.handle(command, wish, self.saga.now_at_ms)
        if word is None:
            return
        status, _, terminal = word.partition(":")
        event = ResultReceived(
            f"answer-{len(self.answers)}",
            command.activation,
            command.phase,
            command.attempt,
            ResultStatus(status),
            command.target,
            TerminalStatus(terminal) if terminal else None,
        )
        self.answers.append(event)

    @precondition(lambda self: self.answers)
    @rule(back=st.integers(0, 7))
    def deliver(self, back: int) -> None:
        event = self.answers[-1 - back % len(self.answers)]
        self.saga.apply(event)
        assert self.saga.apply(event).absorbed

    @precondition(lambda self: self.saga.snapshot.armed_at_ms is not None)
    @rule()
    def wake(self) -> None:
        self.saga.wake()

    @rule(milliseconds=st.sampled_from([1, 900, 9_000, 30_000]), swept=st.booleans())
    def wait(self, milliseconds: int, swept: bool) -> None:
        self.saga.wait(milliseconds)
        if swept:
            self.saga.sweep()

    @rule()
    def early(self) -> None:
        self.saga.deliver(self.saga.snapshot.generation)

    @rule(operation=st.sampled_from([Pause, Resume, Cancel, Retry]))
    def operate(self, operation: type[Pause]) -> None:
        with contextlib.suppress(OperationRefused):
            self.saga.apply(operation(self.saga.operation()))

    def teardown(self) -> None:
        """From every state an end is reachable; then the truth has to be as reported."""
        if not hasattr(self, "saga"):
            return
        for _ in range(400):
            if self.saga.status.is_terminal:
                break
            self.settle()
        assert self.saga.status.is_terminal, (self.saga.status, self.saga.snapshot.reasons)
        self.check_truth()
        for event in self.answers:  # whatever arrives later changes nothing
            self.saga.apply(event)
            assert not any(r.endswith("conflict") for r in self.saga.snapshot.reasons.values())

    def settle(self) -> None:
        """Take one fair step: the operator helps, the participants answer, time passes."""
        saga = self.saga
        if saga.snapshot.control is Control.PAUSED:
            saga.apply(Resume(saga.operation()))
        elif saga.status is SagaStatus.MANUAL_INTERVENTION:
            self.help_out()
        for command in saga.sent[-4:]:
            self.handle(command, "SUCCEEDED")
        for event in self.answers[-8:]:
            saga.apply(event)
        if saga.snapshot.armed_at_ms is not None:
            saga.wake()

    def help_out(self) -> None:
        saga = self.saga
        try:
            saga.apply(Retry(saga.operation()))
        except OperationRefused:
            saga.wait(10_000_000)
            for key in saga.snapshot.reasons:
                self.attest(*key.split(":"))

    def attest(self, kind: str, path: str) -> None:
        effect = self.world.effect(path)
        done = effect.outcome == "SUCCEEDED"
        outcome = ForwardState.SUCCEEDED if done else ForwardState.REJECTED
        said: Any = AttestedOutcome(path, outcome)
        if kind == "member":
            said = AttestedUndo(path, happened=effect.undone > 0)
        self.saga.apply(RecordOutcome(self.saga.operation(), said, "the participant's books"))

    def check_truth(self) -> None:
        nodes = self.saga.definition.nodes
        out = skipped(self.saga.definition, self.saga.snapshot)
        for path, node in nodes.items():
            effect = self.world.effect(path)
            assert effect.applied <= 1, path
            assert effect.undone <= 1, path
            if self.saga.status is SagaStatus.COMPLETED:
                assert (effect.applied, effect.undone) == (0 if path in out else 1, 0), path
            elif node.step.compensate is not None:
                assert effect.applied == effect.undone, path


TestSagas = Sagas.TestCase
TestSagas.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
