"""`python -m sagabus_orchestrator.api.export contracts`: writes the OpenAPI document."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sagabus_orchestrator.api.factory import create_app
from sagabus_orchestrator.api.openapi import document_text

__all__ = ["NAME", "main"]

NAME = "openapi.json"


def main(arguments: Sequence[str]) -> int:
    """Write the document into the named folder; nothing is started."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m sagabus_orchestrator.api.export FOLDER\n")
        return 2
    path = Path(arguments[0]) / NAME
    text = document_text(create_app())
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
