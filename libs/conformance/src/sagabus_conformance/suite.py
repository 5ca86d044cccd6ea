"""The whole run: first contact, all checks side by side, the kill, the audits, the report."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field

from sagabus_bus import KafkaConnection
from sagabus_conformance.audit import Trouble, audit_effects, audit_traffic
from sagabus_conformance.case import Case
from sagabus_conformance.checks import ALL, Check
from sagabus_conformance.checks.crash import PROVES, Crash
from sagabus_conformance.errors import Breach, Inconclusive, UnfitProfile
from sagabus_conformance.guarantees import Guarantee
from sagabus_conformance.lab import Lab
from sagabus_conformance.ports import EffectCounter, Killer
from sagabus_conformance.profile import Profile
from sagabus_conformance.report import Finding, Report, Verdict
from sagabus_core.errors import SagabusError
from sagabus_messages import Topics

__all__ = ["Plan", "examine", "run_suite"]

AUDITED = (
    Guarantee.ANSWERED,
    Guarantee.WELL_FORMED,
    Guarantee.NAMED,
    Guarantee.SAME_EVENT,
)
COUNTED = (Guarantee.ONE_EFFECT, Guarantee.KILL_REPEATS_NOTHING, Guarantee.UNDO_ONCE)
NO_CONTACT = "the participant did not answer the first command"
NO_KILL = "say how to kill and restart it: --pid-file or --kill-command, --restart-command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done, and how long an answer may take; `recovery_s` is after a kill."""

    profile: Profile
    effects: EffectCounter | None = None
    killer: Killer | None = None
    within_s: float = 30.0
    recovery_s: float = 90.0
    batch: int = 40
    kills: int = 2


async def run_suite(connection: KafkaConnection, topics: Topics, plan: Plan) -> Report:
    """Check a running participant and report on every guarantee.

    Uses sagas of its own only, under a business key that no other run has. Raises
    `ConformanceError` and what the bus raises where the suite itself cannot work.
    """
    async with Lab(connection, topics, plan.profile.participant) as lab:
        return await examine(lab, plan)


async def examine(lab: Lab, plan: Plan) -> Report:
    """Do what `run_suite` does in an open lab; several may share one."""
    run = _Run(plan, lab)
    await run.all()
    return run.report()


@dataclass(slots=True)
class _Run:
    plan: Plan
    lab: Lab
    key: str = field(default_factory=lambda: f"conformance-{secrets.token_hex(6)}")
    cases: list[Case] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    proved: set[Guarantee] = field(default_factory=set)
    notes: dict[Guarantee, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def open_case(self, name: str, within_s: float | None = None) -> Case:
        case = Case(
            self.lab, self.plan.profile, f"{self.key}-{name}", within_s or self.plan.within_s
        )
        self.cases.append(case)
        return case

    async def all(self) -> None:
        if await self._contact():
            await self._gather()
            await self._crash()
            self.proved.update(AUDITED)
        self.troubles += audit_traffic(self.cases)
        if self.plan.effects is not None:
            self.troubles += audit_effects(self.cases, await self.plan.effects.count())

    async def _contact(self) -> bool:
        case = self.open_case("contact")
        try:
            await case.succeed()
        except Inconclusive as reason:
            raise UnfitProfile("payload_not_accepted", reason.detail) from reason
        except Breach as breach:
            self.troubles.append((case, breach))
            if breach.guarantee is Guarantee.ANSWERED:
                self.notes = dict.fromkeys(Guarantee, NO_CONTACT)
                return False
        return True

    async def _gather(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for check in ALL:
                    self._begin(check, group)
        except* SagabusError as several:
            raise several.exceptions[0] from None

    def _begin(self, check: Check, group: asyncio.TaskGroup) -> None:
        reason = check.need(self.plan.profile)
        if reason is None:
            group.create_task(self._one(check, self.open_case(check.name)))
        else:
            self._note(check, reason)

    async def _one(self, check: Check, case: Case) -> None:
        try:
            await check.run(case)
        except Inconclusive as reason:
            self._note(check, reason.detail)
        except Breach as breach:
            self.troubles.append((case, breach))
            self._note(check, f"check `{check.name}` was stopped by {breach.guarantee}")
        else:
            self.proved.update(check.proves)

    def _note(self, check: Check, reason: str) -> None:
        for guarantee in check.proves:
            self.notes.setdefault(guarantee, reason)

    async def _crash(self) -> None:
        plan = self.plan
        if plan.killer is None:
            self.notes.update(dict.fromkeys((*PROVES, Guarantee.KILL_KEEPS_FENCES), NO_KILL))
            return
        wait_s = plan.within_s + plan.recovery_s
        crash = Crash(
            plan.killer, lambda name: self.open_case(name, wait_s), plan.batch, plan.kills
        )
        await crash.run()
        self.troubles += crash.troubles
        self.proved.update(PROVES)
        if crash.fences_held:
            self.proved.add(Guarantee.KILL_KEEPS_FENCES)
        else:
            self.notes[Guarantee.KILL_KEEPS_FENCES] = "there was no fence to test"

    def report(self) -> Report:
        return Report(
            self.plan.profile.participant,
            self.plan.profile.step,
            tuple(self._finding(guarantee) for guarantee in Guarantee),
            sum(len(case.box.said) for case in self.cases),
            int((time.monotonic() - self.began) * 1000),
            self.plan.profile.tenant,
        )

    def _finding(self, guarantee: Guarantee) -> Finding:
        found = [(case, b) for case, b in self.troubles if b.guarantee is guarantee]
        if found:
            case, breach = found[0]
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            return Finding(
                guarantee, Verdict.BROKEN, breach.detail + more, case.saga_id, tuple(case.box.said)
            )
        if guarantee in self.proved:
            uncounted = guarantee in COUNTED and self.plan.effects is None
            hint = "as far as outcomes and outputs tell: count with --effects-command"
            return Finding(guarantee, Verdict.KEPT, hint if uncounted else "")
        return Finding(
            guarantee, Verdict.NOT_CHECKED, self.notes.get(guarantee, "nothing showed it")
        )
