"""Conformance suite of sagabus: proves a participant in any language, over the wire."""

from sagabus_conformance.errors import ConformanceError, HookFailed, UnfitProfile
from sagabus_conformance.guarantees import CATALOGUE, Guarantee, Promise
from sagabus_conformance.hooks import CommandKiller, CommandProbe
from sagabus_conformance.lab import Lab
from sagabus_conformance.ports import EffectCounter, Killer
from sagabus_conformance.profile import Profile, Template, profile_of_definition
from sagabus_conformance.report import Finding, Report, Verdict
from sagabus_conformance.suite import Plan, examine, run_suite

__all__ = [
    "CATALOGUE",
    "CommandKiller",
    "CommandProbe",
    "ConformanceError",
    "EffectCounter",
    "Finding",
    "Guarantee",
    "HookFailed",
    "Killer",
    "Lab",
    "Plan",
    "Profile",
    "Promise",
    "Report",
    "Template",
    "UnfitProfile",
    "Verdict",
    "examine",
    "profile_of_definition",
    "run_suite",
]
