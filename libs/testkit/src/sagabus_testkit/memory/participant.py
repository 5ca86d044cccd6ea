"""A participant in memory: the SDK's admission and settlement, its journal a dict.

Local steps run in one transaction with their answer. External steps live through intent, call and
receipt, one at a time per activation; CANCEL and RESOLVE overtake them, as in a service.
"""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, assert_never

from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import OutboxRow, Record
from sagabus_participant import (
    ExternalContext,
    LocalContext,
    Participant,
    Rejected,
    Succeeded,
)
from sagabus_participant.admission import Answer, Call, Ignore, Run, admit
from sagabus_participant.dispatch import Due, answer, context_fields, failure
from sagabus_participant.journal import EffectState, Finding, Found
from sagabus_participant.orders import Order, read_input, read_order
from sagabus_participant.outcomes import finding_of
from sagabus_participant.settlement import Later, Settled, settle
from sagabus_participant.step import Context
from sagabus_testkit.memory.errors import KitError
from sagabus_testkit.memory.journal import Journal
from sagabus_testkit.memory.network import Network, describe
from sagabus_testkit.memory.resources import Resources, RolledBack, roll_back
from sagabus_testkit.memory.script import CallFault, Crash
from sagabus_testkit.memory.story import data_of

__all__ = ["Called", "MemoryParticipant"]

_LEASE_MS: Final = 5_000
_RETRY_MS, _LONGEST_RETRY_MS = 200, 5_000


@dataclass(frozen=True, slots=True)
class Called:
    """A handler that was called: `execute`, `compensate`, `cancel` or `resolve` of a step."""

    saga_id: str
    activation: str
    handler: str

    def __str__(self) -> str:
        return f"{self.activation}.{self.handler}"


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
    misuse: list[KitError] = field(default_factory=list)
    _journal: Journal = field(init=False)
    _claimed: set[str] = field(default_factory=set)
    _lanes: defaultdict[tuple[str, bool], deque[_Work]] = field(
        default_factory=lambda: defaultdict(deque)
    )

    def __post_init__(self) -> None:
        """Subscribe to the commands."""
        self._journal = Journal(self.participant.name, self.network)
        topic = self.network.topics.command(self.participant.name)
        self.network.subscribe(topic, self.receive)

    async def receive(self, record: Record) -> None:
        """Handle one record, as the consumer of a service does."""
        order = read_order(record, self.participant, self.network.topics)
        if order.meta.ce_id in self._claimed:
            self._tell(order, "·", f"repeated command {describe(order.command)} is absorbed")
            return
        self._claimed.add(order.meta.ce_id)
        due = self._admit(order)
        if due is None:
            return
        if not order.step.rules.local:
            self._enqueue(_Work(order))
        elif await self._run_local(due) is not None:
            self._enqueue(_Work(order, 1), self._retry_ms(order, 1))

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

    async def _run_local(self, due: Due) -> Later | None:
        crash = self.network.script.about_call(due.order.command).crash
        if crash is Crash.BEFORE_CALL:
            self._die(due.order)
            return None
        finding = await self._call_in_transaction(due, commits=crash is None)
        if crash is not None:
            self._die(due.order)
            return None
        return self._settle(due, finding)

    async def _call_in_transaction(self, due: Due, *, commits: bool) -> Finding:
        finding = Finding(Found.FAILED)
        with suppress(RolledBack):
            async with self.resources.begin() as conn:
                finding = await self._call(due, LocalContext(**_fields(due, conn=conn)))
                if not commits or finding.kind is not Found.SUCCEEDED:
                    roll_back()
        return finding

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
        finding = await self._call(due, ExternalContext(**_fields(due, db=self.resources.outside)))
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

    async def _call(self, due: Due, ctx: Context) -> Finding:
        command = due.order.command
        handler = due.call.value.partition("_")[0].lower()
        self.calls.append(Called(command.saga_id, command.activation, handler))
        try:
            finding = await answer(due, ctx)
        except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
            self._note(due.order, handler, error)
            return failure(due, error)
        reason = f" {finding.reason.code}" if finding.reason else ""
        output = finding.output.body.decode() if finding.output else ""
        said = f"{command.activation}.{handler}: {finding.kind.value}{reason}  {output}"
        self._tell(due.order, "ƒ", said.rstrip())
        return finding

    def _note(self, order: Order, handler: str, error: Exception) -> None:
        if isinstance(error, KitError):
            self.misuse.append(error)
        self._tell(order, "ƒ", f"{order.command.activation}.{handler} raised {error!r}")

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


def _fields(due: Due, **fake: object) -> dict[str, Any]:
    return {**context_fields(due, due.order.meta.traceparent), **fake}
