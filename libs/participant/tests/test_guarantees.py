"""The guarantees of the SDK under any order, repetition, delay and crash.

A miniature shell around the pure core (lock, journal, queue, calls in flight) and a correct world
outside that honours idempotency keys and can forbid one. Hypothesis plays Kafka, the orchestrator
at its worst, slow calls and kill -9.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_participant.admission import Admission, Answer, Call, Ignore, Run, admit
from sagabus_participant.journal import (
    Activation,
    Ask,
    EffectState,
    Finding,
    Found,
    Reason,
    Reply,
    StepRules,
)
from sagabus_participant.settlement import Later, Settled, settle

OUTPUT = Payload("application/json", "s", b"{}")
QUESTIONS: list[tuple[Phase, Phase | None]] = [
    (Phase.EXECUTE, None),
    (Phase.CANCEL, None),
    (Phase.RESOLVE, Phase.EXECUTE),
    (Phase.COMPENSATE, None),
    (Phase.RESOLVE, Phase.COMPENSATE),
]
LOCAL_KINDS = [Found.SUCCEEDED, Found.REJECTED, Found.FAILED, Found.TRANSIENT, Found.HALTED]
NEGATIVE = {
    (Phase.CANCEL, ResultStatus.CANCEL_CONFIRMED),
    (Phase.RESOLVE, ResultStatus.REJECTED),
}


@dataclass
class World:
    """What is really so: applied and forbidden effects, and how often each was applied."""

    applied: dict[Phase, int] = field(default_factory=dict)
    forbidden: set[Phase] = field(default_factory=set)

    def apply(self, about: Phase) -> Finding:
        if about in self.forbidden:
            return Finding(Found.REJECTED, Reason("forbidden"))
        self.applied.setdefault(about, 0)
        self.applied[about] = 1 if self.applied[about] else self.applied[about] + 1
        return Finding(Found.SUCCEEDED, output=OUTPUT)

    def ask(self, about: Phase, forbid: bool) -> Finding:
        if about in self.applied:
            return Finding(Found.SUCCEEDED, output=OUTPUT)
        if about is Phase.COMPENSATE:
            return Finding(Found.REJECTED if forbid else Found.UNKNOWN)
        if forbid:
            self.forbidden.add(about)
        if about in self.forbidden:
            return Finding(Found.REJECTED, Reason("never_seen"))
        return Finding(Found.UNKNOWN)


class Participant(RuleBasedStateMachine):
    @initialize(
        local=st.booleans(), idempotent=st.booleans(), cancel=st.booleans(), resolve=st.booleans()
    )
    def start(self, local: bool, idempotent: bool, cancel: bool, resolve: bool) -> None:
        self.step = StepRules(local, idempotent=idempotent, has_cancel=cancel, has_resolve=resolve)
        self.journal, self.world, self.now = Activation(), World(), 0
        self.past: dict[str, Reply] = {}
        self.heard: list[tuple[Ask, Reply]] = []
        self.queue: list[Ask] = []
        self.flying: list[tuple[Ask, Call]] = []
        self.zombies: list[Call] = []
        self.runs: dict[Phase, int] = {}
        self.denied = False

    @rule(
        question=st.sampled_from(QUESTIONS),
        attempt=st.integers(1, 3),
        operation=st.sampled_from([None, None, "op-1", "op-2"]),
        kind=st.sampled_from(LOCAL_KINDS),
    )
    def a_command_comes(
        self,
        question: tuple[Phase, Phase | None],
        attempt: int,
        operation: str | None,
        kind: Found,
    ) -> None:
        name = f"{question[0]}-{question[1]}-{attempt}-{operation}"
        ask = Ask(name, *question, 10 * attempt, operation)
        decision = admit(self.step, self.journal, ask, self.past.get(name), self.now)
        self.a_halt_holds(ask, decision)
        match decision:
            case Answer(reply, activation):
                self.journal = activation
                self.answer(ask, reply)
            case Run() if self.step.local:
                self.run_local(ask, decision, kind)
            case Run() if all(queued.command_id != name for queued in self.queue):
                self.queue.append(ask)
            case _:
                pass

    def a_halt_holds(self, ask: Ask, decision: Admission) -> None:
        halt = self.journal.effect(ask.about).halt
        if halt is not None and isinstance(decision, Run):
            assert ask.recovery_operation_id not in {None, halt.recovery_operation_id}

    def run_local(self, ask: Ask, run: Run, kind: Found) -> None:
        assert run.call.applies, "a local step asks its journal, never a handler"
        assert self.now < ask.expires_at_ms
        if kind is Found.REJECTED and run.call is Call.COMPENSATE:
            kind = Found.SUCCEEDED
        about = run.call.about
        if kind is Found.SUCCEEDED:
            self.runs[about] = self.runs.get(about, 0) + 1
            self.world.apply(about)
        output = OUTPUT if kind is Found.SUCCEEDED else None
        self.settled(ask, run.call, Finding(kind, Reason("r"), output), run.activation)

    @precondition(lambda self: self.queue)
    @rule(index=st.integers(0, 5), kind=st.sampled_from(LOCAL_KINDS))
    def a_worker_begins(self, index: int, kind: Found) -> None:
        ask = self.queue[index % len(self.queue)]
        if ask.phase in {Phase.EXECUTE, Phase.COMPENSATE}:
            ask = next(a for a in self.queue if a.phase in {Phase.EXECUTE, Phase.COMPENSATE})
        if any(busy.command_id == ask.command_id for busy, _ in self.flying):
            return
        past = self.past.get(ask.command_id)
        decision = admit(self.step, self.journal, ask, past, self.now)
        match decision:
            case Run() if self.step.local:
                self.run_local(ask, decision, kind)
            case Run(call, activation):
                assert not (call.applies and self.now >= ask.expires_at_ms)
                self.journal = activation
                self.flying.append((ask, call))
            case Answer(reply, activation):
                self.journal = activation
                self.queue.remove(ask)
                self.answer(ask, reply)
            case Ignore():
                self.queue.remove(ask)

    @precondition(lambda self: self.flying)
    @rule(index=st.integers(0, 5), luck=st.sampled_from(["answer", "lost", "bug", "halt", "retry"]))
    def a_call_ends(self, index: int, luck: str) -> None:
        ask, call = self.flying.pop(index % len(self.flying))
        finding = self.outside(call, forbid=luck != "retry")
        if luck == "lost":
            finding = Finding(Found.UNKNOWN)
        elif luck == "bug":
            finding = Finding(Found.FAILED)
        elif luck == "retry":
            finding = Finding(Found.TRANSIENT)
        elif luck == "halt" and call.applies:
            finding = Finding(Found.HALTED, Reason("gave_up"))
        self.settled(ask, call, finding, self.journal)

    def outside(self, call: Call, forbid: bool) -> Finding:
        if call.applies:
            return self.world.apply(call.about)
        finding = self.world.ask(call.about, forbid)
        if call is not Call.CANCEL or finding.kind is Found.SUCCEEDED:
            return finding
        kind = Found.CONFIRMED if finding.kind is Found.REJECTED else Found.PENDING
        return Finding(kind, finding.reason)

    def settled(self, ask: Ask, call: Call, finding: Finding, journal: Activation) -> None:
        result = settle(self.step, journal, ask, call, finding)
        self.journal = result.activation
        match result:
            case Settled():
                assert not result.conflict, "a correct world never contradicts the journal"
                self.queue = [a for a in self.queue if a.command_id != ask.command_id]
                self.answer(ask, result.reply)
            case Later():
                if self.step.local and ask not in self.queue:
                    self.queue.append(ask)

    def answer(self, ask: Ask, reply: Reply) -> None:
        if not reply.final:
            self.past.setdefault(ask.command_id, reply)
        before = [r for a, r in self.heard if a.command_id == ask.command_id]
        assert all(r == reply or not r.final for r in before), "only doubt is ever upgraded"
        self.heard.append((ask, reply))
        succeeded = self.journal.execute.state is EffectState.SUCCEEDED
        if (ask.phase, reply.status) in NEGATIVE and ask.about is Phase.EXECUTE:
            self.denied = True
        if ask.phase is Phase.EXECUTE and reply.status is ResultStatus.REJECTED:
            self.denied = True
        if reply.terminal_status is TerminalStatus.SUCCEEDED:
            assert succeeded
            assert reply.output == OUTPUT
        if ask.phase is Phase.COMPENSATE and reply.status is ResultStatus.SUCCEEDED:
            assert Phase.COMPENSATE in self.world.applied

    @rule()
    def killed(self) -> None:
        self.zombies += [call for _, call in self.flying if call.applies]
        self.flying = []

    @precondition(lambda self: self.zombies)
    @rule()
    def a_call_of_the_dead_arrives(self) -> None:
        self.world.apply(self.zombies.pop().about)

    @rule(by=st.integers(1, 12))
    def time_passes(self, by: int) -> None:
        self.now += by

    @invariant()
    def a_denied_effect_is_never_applied(self) -> None:
        if self.denied:
            assert Phase.EXECUTE not in self.world.applied
            assert self.journal.execute.state in {EffectState.REJECTED, EffectState.FENCED}

    @invariant()
    def only_a_recorded_success_is_undone(self) -> None:
        if Phase.COMPENSATE in self.world.applied:
            assert self.journal.execute.state is EffectState.SUCCEEDED

    @invariant()
    def a_local_effect_is_applied_once(self) -> None:
        assert all(count == 1 for count in self.runs.values())

    @invariant()
    def a_recorded_success_is_real(self) -> None:
        if self.journal.execute.state is EffectState.SUCCEEDED:
            assert Phase.EXECUTE in self.world.applied


TestGuarantees = Participant.TestCase
TestGuarantees.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
