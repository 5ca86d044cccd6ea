"""The kit: a workflow with a team's own handlers, in memory, on virtual time.

kit = SagaKit(definition, inventory, conn=FakeStock())
kit.stub("charge-card", Rejected("card_declined"))
saga = await kit.run({"order": "ORD-1"})
saga.expect("COMPENSATED", undone=["reserve-stock"])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from sagabus_core.definitions import Conditions, Definition, StepDefinition, parse_definition
from sagabus_core.engine import ManagementEvent, Operation, StartRequest
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase
from sagabus_messages import Topics, json_payload, json_value, parse_strict
from sagabus_participant import Context, Participant, Rejected, StepOptions, Succeeded
from sagabus_testkit.memory.agenda import Agenda
from sagabus_testkit.memory.agreement import check_agreement
from sagabus_testkit.memory.calling import Called
from sagabus_testkit.memory.errors import KitError
from sagabus_testkit.memory.network import Network
from sagabus_testkit.memory.orchestrator import MemoryOrchestrator, SagaState
from sagabus_testkit.memory.participant import MemoryParticipant
from sagabus_testkit.memory.resources import Resources, Transaction
from sagabus_testkit.memory.saga import Saga
from sagabus_testkit.memory.script import At, Script
from sagabus_testkit.memory.story import Story
from sagabus_testkit.memory.stubs import (
    Act,
    Acts,
    Anything,
    Books,
    ScriptedLocal,
    ScriptedRetriable,
    ScriptedStep,
)

__all__ = ["Document", "KitMaker", "SagaKit"]

Document: TypeAlias = Definition | Mapping[str, Any] | Path | str
"""A workflow: parsed, as a mapping, or the path of its JSON file."""

TENANT: Final = "default"


class SagaKit:
    """Runs sagas of one workflow. Not for concurrent use; sagas of a kit share their time.

    `conn`, `transaction`, `db`: what the handlers of these participants get, see `Resources`.
    `conditions` is needed only for another expression language than the usual one.
    """

    def __init__(
        self,
        definition: Document,
        *participants: Participant,
        conn: object | None = None,
        transaction: Transaction | None = None,
        db: object | None = None,
        conditions: Conditions | None = None,
    ) -> None:
        self.definition = _read(definition, conditions)
        self.script = Script()
        self.books = Books()
        self.agenda = Agenda()
        self.story = Story(lambda: self.agenda.now_ms)
        self._network = Network(self.agenda, Topics("kit."), self.script, self.story)
        self._orchestrator = MemoryOrchestrator(self._network)
        self._participants: dict[str, MemoryParticipant] = {}
        self._calls: list[Called] = []
        self._acts: dict[str, Acts] = {}
        self._checked = False
        self._keys: dict[str, SagaState] = {}
        for participant in participants:
            self.add(participant, conn=conn, transaction=transaction, db=db)

    def add(
        self,
        participant: Participant,
        *,
        conn: object | None = None,
        transaction: Transaction | None = None,
        db: object | None = None,
    ) -> None:
        """Let a participant handle its steps, with resources of its own."""
        if participant.name in self._participants:
            raise KitError("participant_twice", f"{participant.name} is in this kit already")
        resources = Resources(conn, transaction, db)
        made = MemoryParticipant(participant, self._network, resources, self._calls)
        self._participants[participant.name] = made
        self._orchestrator.listen_to(participant.name)

    def stub(
        self,
        step: str,
        *execute: Act,
        compensate: Sequence[Act] = Acts().compensate,
        cancel: Sequence[Act] = Acts().cancel,
        resolve: Sequence[Act] = Acts().resolve,
        local: bool = False,
    ) -> None:
        """Script a step that nobody here handles: what it answers, call by call.

        The last answer repeats; CANCEL and RESOLVE are answered honestly unless scripted.
        """
        known = self.definition.steps.get(step)
        if known is None:
            raise self._unknown(step)
        first = step not in self._acts
        self._acts[step] = Acts(execute or Acts().execute, compensate, cancel, resolve)
        if first:
            self._register_stub(known, local=local)

    def on(
        self,
        step: str,
        phase: Phase | str = Phase.EXECUTE,
        attempt: int | None = 1,
        target: Phase | str | None = None,
    ) -> At:
        """Name a place where something goes wrong; see `At` for what can.

        `step` is a step's name or the path of an activation.
        """
        if step not in self.definition.steps and step not in self.definition.nodes:
            raise self._unknown(step)
        return self.script.on(step, phase, attempt, target)

    @property
    def unused(self) -> tuple[str, ...]:
        """Places that were named with `on` and that no saga has come to so far."""
        return self.script.unused

    async def run(
        self,
        payload: Payload | Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Saga:
        """Start a saga and let time pass until nothing more is due; return how it stands then.

        That is its end, or MANUAL_INTERVENTION, or PAUSED. `deadline_ms`: from now.
        """
        saga = self.start(payload, key=key, deadline_ms=deadline_ms)
        return await self.settle(saga)

    def start(
        self,
        payload: Payload | Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Saga:
        """Start a saga and return at once; `advance` or `settle` let it go on."""
        self._check()
        named = key or f"saga-{len(self._keys) + 1}"
        if named in self._keys:
            raise KitError("key_used", f"the key {named!r} was started already")
        deadline = None if deadline_ms is None else self.agenda.now_ms + deadline_ms
        request = StartRequest(TENANT, named, f"start-{named}", deadline, self._payload(payload))
        self._keys[named] = self._orchestrator.start(self.definition, request)
        return self.saga(named)

    async def advance(self, ms: int) -> None:
        """Let so much time pass."""
        await self.agenda.run(self.agenda.now_ms + ms)
        self._raise_misuse()

    async def settle(self, saga: Saga) -> Saga:
        """Let time pass until nothing more is due, and return the saga as it stands then."""
        await self.agenda.run()
        self._raise_misuse()
        return self.saga(saga.key)

    async def operate(
        self, saga: Saga, operation: Callable[[Operation], ManagementEvent], reason: str = "test"
    ) -> Saga:
        """Apply a management operation (`Cancel`, `Retry`, ... of the engine), then settle."""
        state = self._keys[saga.key]
        number = state.snapshot.revision
        asked = Operation(f"operation-{saga.key}-{number}", "kit", reason)
        self._orchestrator.operate(state, operation(asked))
        return await self.settle(saga)

    async def call_back(
        self,
        saga: Saga,
        activation: str,
        outcome: Succeeded | Rejected,
        about: Phase = Phase.EXECUTE,
    ) -> Saga:
        """Be the outside that reports an outcome by itself, then settle."""
        step = self.definition.nodes[activation].step
        participant = self._participants[step.participant]
        await participant.report(saga.snapshot.saga_id, activation, outcome, about)
        return await self.settle(saga)

    def saga(self, key: str) -> Saga:
        """Return a saga as it stands now."""
        state = self._keys[key]
        saga_id = state.snapshot.saga_id
        output = state.output
        return Saga(
            state.snapshot,
            tuple(str(call) for call in self._calls if call.saga_id == saga_id),
            json_value(output) if output is not None else None,
            "\n".join(str(line) for line in self.story.of(saga_id)),
        )

    @property
    def sagas(self) -> tuple[Saga, ...]:
        """All sagas of this kit."""
        return tuple(self.saga(key) for key in self._keys)

    def _check(self) -> None:
        if not self._checked:
            known = {name: each.participant for name, each in self._participants.items()}
            check_agreement(self.definition, known)
            self._checked = True

    def _raise_misuse(self) -> None:
        for participant in self._participants.values():
            for error in participant.misuse:
                raise error

    def _payload(self, given: Payload | Mapping[str, Any] | None) -> Payload | None:
        if given is None or isinstance(given, Payload):
            return given
        contract = self.definition.input
        schema = contract.contract.schema_id if contract else f"{self.definition.workflow}.v1"
        return json_payload(dict(given), schema)

    def _register_stub(self, step: StepDefinition, *, local: bool) -> None:
        if step.participant not in self._participants:
            self.add(Participant(step.participant), conn=self.books)
        participant = self._participants[step.participant].participant
        if participant.find(step.name) is not None:
            raise KitError("stub_of_own_step", f"{step.name} has a handler: do not stub it")
        kind = ScriptedRetriable if step.retriable else ScriptedLocal if local else ScriptedStep
        options = StepOptions(
            input_schema=step.payload.schema_id if step.payload else None,
            output_schema=step.output.schema_id if step.output else None,
            retriable=step.retriable,
        )
        participant.add(step.name, Anything, kind(self._part_of), options)

    def _unknown(self, step: str) -> KitError:
        names = ", ".join(self.definition.steps)
        return KitError(
            "step_unknown", f"{self.definition.workflow} has no step {step!r}, but: {names}"
        )

    def _part_of(self, ctx: Context) -> tuple[Acts, Books]:
        return self._acts[ctx.step], self.books


class KitMaker:
    """Makes kits and remembers them: what the fixture `saga_kit` is."""

    def __init__(self) -> None:
        self.kits: list[SagaKit] = []

    def __call__(self, definition: Document, *participants: Participant, **options: Any) -> SagaKit:  # noqa: ANN401
        """Return a new kit; arguments as of `SagaKit`."""
        kit = SagaKit(definition, *participants, **options)
        self.kits.append(kit)
        return kit


def _read(document: Document, conditions: Conditions | None) -> Definition:
    if isinstance(document, Definition):
        return document
    if isinstance(document, Mapping):
        parsed: object = json.loads(json.dumps(document))
    else:
        parsed = parse_strict(Path(document).read_bytes())
    if conditions is None:
        from sagabus_expressions import CelConditions  # noqa: PLC0415 - slow, and seldom needed

        conditions = CelConditions()
    return parse_definition(parsed, conditions)
