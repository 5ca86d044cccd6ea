"""A participant in memory: the SDK's admission and settlement, its journal a dict.

Local steps run in one transaction with their answer; several orders of one instant are one call
where the step has `execute_many`, as those of one batch are in a service. External steps live
through intent, call and receipt, one at a time per activation; CANCEL and RESOLVE overtake them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Final, assert_never

from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import OutboxRow, Record
from sagabus_participant import Participant, Rejected, Succeeded
from sagabus_participant.admission import Answer, Call, Ignore, Run, admit
from sagabus_participant.dispatch import Due
from sagabus_participant.journal import EffectState, Finding, Found
from sagabus_participant.orders import Order, read_input, read_order
from sagabus_participant.outcomes import finding_of
from sagabus_participant.settlement import Later, Settled, settle
from sagabus_testkit.memory.calling import Called, Calling
from sagabus_testkit.memory.errors import KitError
from sagabus_testkit.memory.instant import Instant
from sagabus_testkit.memory.journal import Journal
from sagabus_testkit.memory.network import Network, describe
from sagabus_testkit.memory.resources import Resources
from sagabus_testkit.memory.script import CallFault, Crash
from sagabus_testkit.memory.story import data_of

__all__ = ["MemoryParticipant"]

_LEASE_MS: Final = 5_000
_RETRY_MS, _LONGEST_RETRY_MS = 200, 5_000


@dataclass(slots=True)
class _Work:
    """A command that waits for a worker, or for its next try."""

    order: Order
    tries: int = 0


@dataclass(slots=True)
class MemoryParticipant:
    """Handles the commands of one participant; `calls` is the log of all participants."""

    participant: Participant
    network: Network
    resources: Resources
    calls: list[Called]
    _calling: Calling = field(init=False)
    _instant: Instant = field(init=False)
    _journal: Journal = field(init=False)
    _claimed: set[str] = field(default_factory=set)
    _lanes: defaultdict[tuple[str, bool], deque[_Work]] = field(
        default_factory=lambda: defaultdict(deque)
    )

    def __post_init__(self) -> None:
        """Subscribe to the commands."""
        self._calling = Calling(self.resources, self.network.story, self.calls)
        self._instant = Instant(self.network.agenda, self._execute_many)
        self._journal = Journal(self.participant.name, self.network)
        topic = self.network.topics.command(self.participant.name)
        self.network.subscribe(topic, self.receive)

    @property
    def misuse(self) -> list[KitError]:
        """What handlers have done that the kit cannot do for them."""
        return self._calling.misuse

    async def receive(self, record: Record) -> None:
        """Handle one record, as the consumer of a service does."""
        order = read_order(record, self.participant, self.network.topics)
        if order.meta.ce_id in self._claimed:
            self._tell(order, "·", f"repeated command {describe(order.command)} is absorbed")
            return
        self._claimed.add(order.meta.ce_id)
        if self._instant.concerns(order):
            # The commands of one activation meet what the earlier one has left.
            await self._instant.hand_on()
        if order.step.executes_many and order.ask.phase is Phase.EXECUTE:
            self._instant.add(order)
        elif (due := self._admit(order)) is not None:
            await self._start(due)

    async def report(
        self, saga_id: str, activation: str, outcome: Succeeded | Rejected, about: Phase
    ) -> bool:
        """Be the outside that calls back; False where the effect is settled already."""
        order = self._journal.intent(saga_id, activation, about)
        if order is None:
            raise KitError(
                "nothing_to_call_back", f"{activation} has called nothing that is in doubt"
            )
        activation_now = self._journal.activation(order)
        if activation_now.effect(about).state is not EffectState.INTENT:
            return False
        call = Call.COMPENSATE if about is Phase.COMPENSATE else Call.EXECUTE
        self._tell(order, "☎", f"{activation}: called back {_said(outcome)}")
        self._settle(
            Due(order, call, activation_now), finding_of(outcome, order.step.output_schema)
        )
        return True

    def _admit(self, order: Order) -> Due | None:
        before = self._journal.activation(order)
        past = self._journal.past(order)
        now_ms = self.network.agenda.now_ms
        decision = admit(order.step.rules, before, order.ask, past, now_ms)
        match decision:
            case Ignore(why):
                self._tell(order, "·", f"{describe(order.command)} is ignored: {why}")
            case Answer(reply, after):
                self._tell(order, "·", f"{describe(order.command)} is answered from the journal")
                self._journal.put(order, after)
                self._journal.answer(order, reply)
            case Run(call, after):
                given = read_input(order) if call is Call.EXECUTE else None
                if not isinstance(given, Finding):
                    return Due(order, call, after, given)
                self._settle(Due(order, call, before), given)
            case _:
                assert_never(decision)
        return None

    async def _start(self, due: Due) -> None:
        order = due.order
        if not order.step.rules.local:
            self._enqueue(_Work(order))
        elif await self._run_local(due) is not None:
            self._enqueue(_Work(order, 1), self._retry_ms(order, 1))

    async def _execute_many(self, orders: Sequence[Order]) -> None:
        """Call each step once for its orders, or `execute` for each where not all succeed."""
        dues = [due for order in orders if (due := self._admit(order)) is not None]
        dues.sort(key=_step_of)
        for _, same in groupby(dues, _step_of):
            part = list(same)
            if len(part) == 1 or not await self._run_many(part):
                for due in part:
                    await self._start(due)

    async def _run_many(self, dues: Sequence[Due]) -> bool:
        """Return whether nothing is left to do; a crash takes all that share the transaction."""
        script = self.network.script
        crashes = {script.about_call(due.order.command).crash for due in dues} - {None}
        found = None
        if Crash.BEFORE_CALL not in crashes:
            found = await self._calling.many(dues, commits=not crashes)
        if crashes:
            for due in dues:
                self._die(due.order)
        elif found is not None:
            for due, finding in zip(dues, found, strict=True):
                self._settle(due, finding)
        return bool(crashes) or found is not None

    async def _run_local(self, due: Due) -> Later | None:
        crash = self.network.script.about_call(due.order.command).crash
        if crash is Crash.BEFORE_CALL:
            self._die(due.order)
            return None
        finding = await self._calling.locally(due, commits=crash is None)
        if crash is not None:
            self._die(due.order)
            return None
        return self._settle(due, finding)

    def _die(self, order: Order) -> None:
        """Roll everything back; Kafka delivers again, because no offset was committed."""
        self._tell(order, "☠", f"{self.participant.name} is killed, nothing is committed")
        self._claimed.discard(order.meta.ce_id)
        record = order.record
        row = OutboxRow(record.topic, record.key, record.headers, record.value)
        self.network.deliver(row, _LEASE_MS)

    async def _work(self, work: _Work) -> None:
        """Bring one command as far as it goes now."""
        order = work.order
        work.tries += 1
        due = self._admit(order)
        if due is None:
            self._finish(work)
        elif order.step.rules.local:
            self._close(work, await self._run_local(due))
        else:
            await self._work_outside(work, due)

    async def _work_outside(self, work: _Work, due: Due) -> None:
        order = work.order
        self._journal.put(order, due.activation)
        fault = self.network.script.about_call(order.command)
        if fault.crash is Crash.BEFORE_CALL:
            self._leave(work)
            return
        finding = await self._calling.outside(due)
        if fault.crash is Crash.AFTER_CALL:
            self._leave(work)
        elif fault.slow_ms:
            self._tell(order, "✗", f"{describe(order.command)} takes {fault.slow_ms} ms")
            receipt = partial(self._receive_late, work, due, finding, fault)
            self.network.agenda.after(fault.slow_ms, receipt)
        else:
            self._receipt(work, due, finding, fault)

    def _leave(self, work: _Work) -> None:
        """Die between intent and receipt: the work is taken over when the lease has run out."""
        self._tell(work.order, "☠", f"{self.participant.name} is killed before the receipt")
        self.network.agenda.after(_LEASE_MS, partial(self._work, work))

    async def _receive_late(
        self, work: _Work, due: Due, finding: Finding, fault: CallFault
    ) -> None:
        self._receipt(work, due, finding, fault)

    def _receipt(self, work: _Work, due: Due, finding: Finding, fault: CallFault) -> None:
        self._close(work, self._settle(due, finding))
        if fault.callback is not None and finding.kind is Found.UNKNOWN:
            after_ms, outcome = fault.callback
            command = work.order.command
            about = work.order.ask.about
            call_back = partial(
                self._called_back, command.saga_id, command.activation, outcome, about
            )
            self.network.agenda.after(after_ms, call_back)

    async def _called_back(
        self, saga_id: str, activation: str, outcome: Succeeded | Rejected, about: Phase
    ) -> None:
        await self.report(saga_id, activation, outcome, about)

    def _settle(self, due: Due, finding: Finding) -> Later | None:
        order = due.order
        # A local step settles in the transaction that admitted it; an external one looks again,
        # because a CANCEL, a RESOLVE or a callback may have settled it during the call.
        local = order.step.rules.local
        base = due.activation if local else self._journal.activation(order)
        result = settle(order.step.rules, base, order.ask, due.call, finding)
        self._journal.put(order, result.activation)
        match result:
            case Settled(_, reply, conflict):
                if conflict:
                    self._tell(order, "!", "the outside contradicts the journal")
                self._journal.answer(order, reply)
                return None
            case Later():
                return result
            case _:
                assert_never(result)

    def _enqueue(self, work: _Work, delay_ms: int = 0) -> None:
        lane = self._lane(work)
        lane.append(work)
        if len(lane) == 1:
            self.network.agenda.after(delay_ms, partial(self._work, work))

    def _close(self, work: _Work, later: Later | None) -> None:
        if later is None:
            self._finish(work)
            return
        delay_ms = 0 if later.at_once else self._retry_ms(work.order, work.tries)
        self.network.agenda.after(delay_ms, partial(self._work, work))

    def _finish(self, work: _Work) -> None:
        lane = self._lane(work)
        lane.remove(work)
        if lane:
            self.network.agenda.after(0, partial(self._work, lane[0]))

    def _lane(self, work: _Work) -> deque[_Work]:
        return self._lanes[work.order.execute_id, work.order.overtakes]

    def _retry_ms(self, order: Order, tries: int) -> int:
        """Return the back-off, without jitter; due at the expiry at the latest."""
        wait_ms = min(_RETRY_MS << min(tries - 1, 20), _LONGEST_RETRY_MS)
        return max(0, min(wait_ms, order.ask.expires_at_ms - self.network.agenda.now_ms))

    def _tell(self, order: Order, mark: str, text: str) -> None:
        self.network.story.tell(order.command.saga_id, mark, text)


def _said(outcome: Succeeded | Rejected) -> str:
    if isinstance(outcome, Rejected):
        return f"REJECTED {outcome.reason}"
    return f"{ResultStatus.SUCCEEDED}{data_of(outcome.output)}"


def _step_of(due: Due) -> str:
    return due.order.step.name
