"""One saga of the suite's own: makes its commands, sends them, waits for the answers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from sagabus_conformance.errors import Breach, Inconclusive
from sagabus_conformance.evidence import Asked
from sagabus_conformance.guarantees import Guarantee
from sagabus_conformance.lab import Box, Lab, now_ms
from sagabus_conformance.profile import Profile
from sagabus_core import ids
from sagabus_core.canonical import sha256_hex
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import Command, OutboxRow, Result, Stamp, encode

__all__ = ["DIGEST", "WORKFLOW", "Case", "EffectBound", "Target"]

WORKFLOW: Final = "conformance"
DIGEST: Final = sha256_hex(b"conformance")
ORCHESTRATOR: Final = "urn:sagabus:orchestrator"
ALIVE_MS: Final = 600_000
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0

Target: TypeAlias = Literal[Phase.EXECUTE, Phase.COMPENSATE]


@dataclass(frozen=True, slots=True)
class EffectBound:
    """How often an effect may have been applied when all is over, and what it breaks otherwise."""

    effect_id: str
    least: int
    most: int
    guarantee: Guarantee


@dataclass(slots=True)
class Case:
    """A saga about which nobody else knows; `name` tells it apart within the run.

    `within_s` bounds every wait. `bounds` are what the effect counter is asked about at the end.
    """

    lab: Lab
    profile: Profile
    name: str
    within_s: float
    bounds: dict[str, EffectBound] = field(default_factory=dict)
    rows: dict[str, OutboxRow] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    forged: set[str] = field(default_factory=set)
    box: Box = field(init=False)
    saga_id: str = field(init=False)

    def __post_init__(self) -> None:
        """Open the letter box before anything is sent."""
        self.saga_id = ids.saga_id(self.profile.tenant, WORKFLOW, self.name)
        self.box = self.lab.open_box(self.saga_id)

    def command(
        self,
        phase: Phase,
        attempt: int = 1,
        *,
        target: Target | None = None,
        activation: str | None = None,
        payload: Payload | None = None,
    ) -> Command:
        """Return a command of this saga; the payload is that of `accepted` unless it is given."""
        path = activation or self.profile.step
        effect = ids.effect_id(self.saga_id, 1, path, phase, target)
        return Command(
            saga_id=self.saga_id,
            tenant=self.profile.tenant,
            workflow=WORKFLOW,
            business_key=self.name,
            definition_version=1,
            definition_digest=DIGEST,
            step=self.profile.step,
            activation=path,
            phase=phase,
            target=target,
            attempt=attempt,
            effect_id=effect,
            command_id=ids.command_id(effect, attempt),
            expires_at_ms=now_ms() + ALIVE_MS,
            payload=payload or self.profile.accepted.for_key(self.name, self.profile.schema_id),
        )

    def resolve(self, target: Target, attempt: int = 1, activation: str | None = None) -> Command:
        """Return a RESOLVE about this phase."""
        return self.command(Phase.RESOLVE, attempt, target=target, activation=activation)

    def row(self, command: Command, traceparent: str | None = None) -> OutboxRow:
        """Return the record of a command: the same one at every repeat."""
        known = self.rows.get(command.command_id)
        if known is None:
            stamp = Stamp(ORCHESTRATOR, now_ms(), traceparent)
            known = encode(command, self.lab.command_topic, stamp)
            self.rows[command.command_id] = known
        return known

    async def send(self, *commands: Command, note: str = "") -> None:
        """Write commands in this order; each EXECUTE and COMPENSATE may take effect once."""
        await self.lab.send([(self.box, self.asked(command, note)) for command in commands])

    def asked(self, command: Command, note: str = "") -> Asked:
        """Return a command as it will be sent, and remember that it was."""
        again = command.command_id in self.commands
        self.commands[command.command_id] = command
        if command.phase in {Phase.EXECUTE, Phase.COMPENSATE}:
            undo = command.phase is Phase.COMPENSATE
            guarantee = Guarantee.UNDO_ONCE if undo else Guarantee.ONE_EFFECT
            bound = EffectBound(command.effect_id, 0, 1, guarantee)
            self.bounds.setdefault(command.effect_id, bound)
        return Asked(now_ms(), self.row(command), note or ("again" if again else ""), command)

    async def send_raw(self, row: OutboxRow, note: str) -> None:
        """Write a record that no orchestrator would write."""
        await self.lab.send([(self.box, Asked(now_ms(), row, note, None))])

    def bound(self, command: Command, least: int, most: int, guarantee: Guarantee) -> None:
        """Say how often the effect of a command may have been applied in the end."""
        self.bounds[command.effect_id] = EffectBound(command.effect_id, least, most, guarantee)

    async def ask(
        self, command: Command, silence: Guarantee = Guarantee.ANSWERED, note: str = ""
    ) -> Result:
        """Send a command and return its first answer; see `hear`."""
        await self.send(command, note=note)
        return await self.hear(command, silence)

    async def hear(self, command: Command, silence: Guarantee = Guarantee.ANSWERED) -> Result:
        """Return the first answer to a command.

        Raises `Breach` of `silence` when none comes in time, and at once where an answer in this
        saga is unreadable or names no command of it.
        """
        deadline = time.monotonic() + self.within_s
        while True:
            self.box.news.clear()
            for result in self.box.results:
                if result.command_id == command.command_id:
                    return result
            self._refuse_strays()
            self.lab.check()
            if not await self.news(deadline):
                asked = f"{command.phase} attempt {command.attempt}"
                raise Breach(silence, f"{asked} got no answer within {self.within_s:g} s")

    def _refuse_strays(self) -> None:
        for heard in self.box.heard:
            if heard.result is None:
                raise Breach(Guarantee.WELL_FORMED, heard.problem or "unreadable")
            if heard.result.command_id not in self.commands:
                raise self.stray(heard.result)

    def stray(self, result: Result) -> Breach:
        """Return what an answer to something that was never asked breaks."""
        if result.command_id in self.forged or result.effect_id in self.forged:
            return Breach(Guarantee.FORGERIES, f"a forged command was answered {result.status}")
        return Breach(
            Guarantee.NAMED,
            f"an answer names {result.phase} attempt {result.attempt}, target {result.target}: "
            "that was never asked",
        )

    async def news(self, deadline: float) -> bool:
        """Wait until something new is said about this saga; False once the deadline is over."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        try:
            async with asyncio.timeout(min(left, 1.0)):
                await self.box.news.wait()
        except TimeoutError:
            return time.monotonic() < deadline
        return True

    async def settle(self, command: Command, *, send: bool = True) -> Result:
        """Ask for a definitive outcome of EXECUTE or COMPENSATE: through UNKNOWN and RESOLVE.

        Raises `Breach` (`unknown-converges`) where UNKNOWN is not allowed or does not end.
        """
        first = await (self.ask(command) if send else self.hear(command))
        if first.status is not ResultStatus.UNKNOWN:
            return first
        undo = command.phase is Phase.COMPENSATE
        if not self.profile.unknown_allowed and not undo:
            raise Breach(
                Guarantee.UNKNOWN_CONVERGES,
                f"EXECUTE answered UNKNOWN ({first.reason_code}), which the step does not declare",
            )
        return await self._resolved(command, Phase.COMPENSATE if undo else Phase.EXECUTE)

    async def _resolved(self, command: Command, target: Target) -> Result:
        deadline, pause, attempt = time.monotonic() + self.within_s, FIRST_PAUSE_S, 100
        while time.monotonic() < deadline:
            if later := self._later(command):
                return later
            attempt += 1
            if self.profile.retriable:
                question = replace_attempt(command, attempt)
            else:
                question = self.resolve(target, attempt, command.activation)
            answer = await self.ask(question)
            if answer.status in {ResultStatus.SUCCEEDED, ResultStatus.REJECTED}:
                return answer
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
        raise Breach(
            Guarantee.UNKNOWN_CONVERGES,
            f"{command.phase} stayed UNKNOWN for {self.within_s:g} s, asked {attempt - 100} times",
        )

    def _later(self, command: Command) -> Result | None:
        """Return a second, definitive answer to the same command: a callback."""
        open_still = {ResultStatus.UNKNOWN, ResultStatus.RESOLUTION_PENDING}
        mine = [r for r in self.box.results if r.command_id == command.command_id]
        return next((r for r in mine if r.status not in open_still), None)

    async def succeed(
        self, activation: str | None = None, broken: Guarantee | None = None
    ) -> tuple[Command, Result]:
        """EXECUTE attempt 1 until it has succeeded; the payload is one that the step accepts.

        Any other outcome breaks `broken`; without it nothing can be concluded.
        """
        command = self.command(Phase.EXECUTE, activation=activation)
        result = await self.settle(command)
        if result.status is not ResultStatus.SUCCEEDED:
            answered = f"EXECUTE answered {result.status} {result.reason_code}"
            if broken is not None:
                raise Breach(broken, answered)
            raise Inconclusive(
                "inconclusive", f"{answered}: give a payload that the step accepts, ever again"
            )
        self.bound(command, 1, 1, Guarantee.ONE_EFFECT)
        return command, result


def replace_attempt(command: Command, attempt: int) -> Command:
    """Return another attempt of the same command."""
    identity = ids.command_id(command.effect_id, attempt)
    return command.model_copy(update={"attempt": attempt, "command_id": identity})
