"""Write the generated contract files: `python -m sagabus_messages.export <folder>`."""

from __future__ import annotations

import sys
from pathlib import Path

from sagabus_messages.export import render


def main(arguments: list[str]) -> int:
    """Write every file whose text changed and name it."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m sagabus_messages.export <folder>\n")
        return 2
    root = Path(arguments[0])
    for name, text in render().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
