"""The one written form of generated JSON files."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_text"]


def json_text(value: Any) -> str:  # noqa: ANN401  # whatever JSON can hold
    """Return stable, readable JSON: members in the order given, two spaces, a last newline."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
