"""The verdict on each guarantee, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sagabus_conformance.evidence import Asked, Heard, document_of, line_of
from sagabus_conformance.guarantees import CATALOGUE, Guarantee
from sagabus_conformance.profile import TENANT

__all__ = ["Finding", "Report", "Verdict"]

SHOWN: Final = 12


class Verdict(StrEnum):
    """What became of one guarantee."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict, what led to it, and what was said in the first saga that shows it."""

    guarantee: Guarantee
    verdict: Verdict
    detail: str = ""
    saga: str = ""
    evidence: tuple[Asked | Heard, ...] = ()

    @property
    def mend(self) -> str:
        """What to do about it."""
        return CATALOGUE[self.guarantee].mend

    def document(self) -> dict[str, object]:
        """Return the finding for programs."""
        found: dict[str, object] = {
            "name": self.guarantee.value,
            "verdict": self.verdict.value,
            "promise": CATALOGUE[self.guarantee].text,
            "detail": self.detail,
        }
        if self.verdict is Verdict.BROKEN:
            found["mend"] = self.mend
            found["saga"] = self.saga
            found["evidence"] = [document_of(each) for each in self.evidence]
        return found


@dataclass(frozen=True, slots=True)
class Report:
    """One finding per guarantee, in the order of the catalogue."""

    participant: str
    step: str
    findings: tuple[Finding, ...]
    messages: int
    duration_ms: int
    tenant: str = TENANT

    @property
    def broken(self) -> tuple[Guarantee, ...]:
        """The guarantees that do not hold."""
        return self._with(Verdict.BROKEN)

    @property
    def kept(self) -> tuple[Guarantee, ...]:
        """The guarantees that were seen to hold."""
        return self._with(Verdict.KEPT)

    @property
    def not_checked(self) -> tuple[Guarantee, ...]:
        """The guarantees that nothing was found out about."""
        return self._with(Verdict.NOT_CHECKED)

    def _with(self, verdict: Verdict) -> tuple[Guarantee, ...]:
        return tuple(each.guarantee for each in self.findings if each.verdict is verdict)

    @property
    def clean_up(self) -> str:
        """The command about the dead letters of such runs, where an orchestrator reads along.

        It closes them in the suite's own tenant; where the caller named another one, whose letters
        may be others', it only shows them.
        """
        where = f"--where tenant={self.tenant}"
        if self.tenant != TENANT:
            return f"sagabus dlt list {where}"
        return f"sagabus dlt discard {where} --reason 'conformance run'"

    def document(self) -> dict[str, object]:
        """Return the report for programs."""
        return {
            "participant": self.participant,
            "step": self.step,
            "verdict": (Verdict.BROKEN if self.broken else Verdict.KEPT).value,
            "kept": len(self.kept),
            "broken": len(self.broken),
            "not_checked": len(self.not_checked),
            "messages": self.messages,
            "duration_ms": self.duration_ms,
            "clean_up": self.clean_up,
            "guarantees": [each.document() for each in self.findings],
        }

    def text(self) -> str:
        """Return the report for people: a line per guarantee, then what is behind the broken."""
        width = max(len(each.guarantee) for each in self.findings)
        lines = [
            f"{each.verdict:<11}  {each.guarantee:<{width}}  {each.detail or _promise(each)}"
            for each in self.findings
        ]
        for each in self.findings:
            if each.verdict is Verdict.BROKEN:
                lines += ["", *_story(each)]
        lines += ["", self._sum(), f"its dead letters, if an orchestrator runs: {self.clean_up}"]
        return "\n".join(lines)

    def _sum(self) -> str:
        return (
            f"{self.participant}/{self.step}: {len(self.kept)} kept, {len(self.broken)} broken, "
            f"{len(self.not_checked)} not checked; {self.messages} messages in "
            f"{self.duration_ms / 1000:.1f} s"
        )


def _promise(finding: Finding) -> str:
    return CATALOGUE[finding.guarantee].text


def _story(finding: Finding) -> list[str]:
    said = [line_of(each) for each in finding.evidence]
    if len(said) > SHOWN:
        hidden = len(said) - SHOWN
        said = [f"... {hidden} earlier (all of them: --json)", *said[-SHOWN:]]
    return [
        f"{finding.guarantee}: {_promise(finding)}",
        f"  found:   {finding.detail}",
        f"  to mend: {finding.mend}",
        f"  in saga {finding.saga}:",
        *(f"    {line}" for line in said),
    ]
