"""`make model-check`: explore every scenario in its own process, write build/model-check.json."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from tests.model.explore import Report, explore
from tests.model.scenarios import FULL, QUICK
from tests.model.world import Scenario

__all__ = ["main"]

_WANTED = 1_000_000


def _run(name: str) -> Report:
    scenarios = {scenario.name: scenario for scenario in (*QUICK, *FULL)}
    return explore(scenarios[name])


def _told(report: Report) -> str:
    end = "exhausted" if report.exhausted else "NOT exhausted"
    told = (
        f"{report.scenario:36} {report.states:>9,} states {report.transitions:>10,} transitions, "
        f"depth {report.depth:>2}, {report.seconds:>6.1f} s CPU, {end}, "
        f"{report.violations} violations"
    )
    lines = [told]
    for finding in report.findings.values():
        lines += [f"  {finding.problem}", *(f"    {line}" for line in finding.trace)]
    return "\n".join(lines) + "\n"


def _bounds(scenario: Scenario) -> dict[str, object]:
    return {
        "attempts_per_phase": 2,
        "in_flight": scenario.in_flight,
        "duplicates": scenario.duplicates,
        "explicit_loss": scenario.loss,
        "instance_deadline": scenario.deadline,
        "operations": list(scenario.operations),
        "forgets_settled_detail": not scenario.exact,
    }


def _write(path: Path, scenarios: Sequence[Scenario], reports: Sequence[Report]) -> None:
    bounds = {scenario.name: _bounds(scenario) for scenario in scenarios}
    document = {
        "states": sum(report.states for report in reports),
        "violations": sum(report.violations for report in reports),
        "exhausted": all(report.exhausted for report in reports),
        "cpu_seconds": round(sum(report.seconds for report in reports), 1),
        "scenarios": [{**asdict(report), "bounds": bounds[report.scenario]} for report in reports],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def main(arguments: Sequence[str]) -> int:
    """Return 0 if everything was exhausted, nothing is wrong, and it was enough."""
    parser = argparse.ArgumentParser(prog="model-check", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the profile of `make test`")
    parser.add_argument("--only", metavar="SCENARIO", action="append", default=[])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("build/model-check.json"))
    chosen = parser.parse_args(arguments)
    scenarios = QUICK if chosen.quick else FULL
    scenarios = tuple(s for s in scenarios if not chosen.only or s.name in chosen.only)
    reports: list[Report] = []
    # One process per scenario, so that each returns its memory.
    with get_context("fork").Pool(chosen.processes, maxtasksperchild=1) as pool:
        for report in pool.imap_unordered(_run, [scenario.name for scenario in scenarios]):
            sys.stdout.write(_told(report))
            sys.stdout.flush()
            reports.append(report)
    _write(chosen.output, scenarios, reports)
    states, wrong = sum(r.states for r in reports), sum(r.violations for r in reports)
    complete = all(report.exhausted for report in reports)
    sys.stdout.write(
        f"{states:,} distinct states, {wrong} violations, "
        f"bounds {'exhausted' if complete else 'NOT exhausted'}\n"
    )
    whole = not (chosen.quick or chosen.only)
    return 0 if complete and not wrong and (states >= _WANTED or not whole) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
