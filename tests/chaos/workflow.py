"""The order workflow with patience: its budgets end long after the faults of a campaign do.

A workflow says how long it goes on asking before a person is called; in the demo, minutes. Chaos
asks another question, whether everything converges by itself, and outages that follow each other
may last longer than minutes: then `manual` would only say that they did.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions import Definition, NoConditions, parse_definition
from sagabus_messages import parse_strict
from sagabus_messages.strict_json import dump
from sagabus_testkit.orders import DEFINITION

__all__ = ["patient_definition", "write_patient"]

ATTEMPTS: Final = 1_000
BUDGET_MS: Final = 6 * 3_600_000


def patient_definition() -> Definition:
    """Return the workflow as the engine takes it."""
    return parse_definition(_document(), NoConditions())


def write_patient(folder: Path) -> Path:
    """Write the workflow into a file that can be published."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "order.v1.json"
    file.write_bytes(dump(_document()))
    return file


def _document() -> JsonValue:
    document = cast("dict[str, Any]", parse_strict(DEFINITION.read_bytes()))
    for step in document["steps"].values():
        for phase in ("execute", "cancel", "compensate", "resolve"):
            timing = step.get(phase, {})
            timing.update({"attempts": ATTEMPTS} if "attempts" in timing else {})
            timing.update({"budget_ms": BUDGET_MS} if "budget_ms" in timing else {})
    return document
