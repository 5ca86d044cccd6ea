"""Where figures go: `build/bench.json`, beside what other runs have left there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["OUT", "beside", "keep"]

OUT: Final = Path(__file__).resolve().parents[2] / "build" / "bench.json"


def beside(value: float, floor: float, **more: object) -> dict[str, object]:
    """Return a figure with the floor of the same run, rounded to what can be believed."""
    return {
        "value": round(value, 1),
        "floor": round(floor, 1),
        "ratio": round(value / floor, 3) if floor else None,
        **more,
    }


def keep(found: Mapping[str, object]) -> None:
    """Print figures and keep them; earlier ones under other names stay."""
    known = json.loads(OUT.read_text()) if OUT.exists() else {}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({**known, **found}, indent=1) + "\n")
    print(json.dumps(found, indent=1), flush=True)  # noqa: T201
