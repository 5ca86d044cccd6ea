"""`python -m sagabus_participant asyncapi MODULE:PARTICIPANT` prints a participant's document."""

from __future__ import annotations

import sys
from importlib import import_module

from sagabus_messages.export.text import json_text
from sagabus_participant.registry import Participant

__all__ = ["main"]

USAGE = "usage: python -m sagabus_participant asyncapi MODULE:PARTICIPANT\n"


def main(arguments: list[str]) -> int:
    """Print the AsyncAPI document; 2 where the arguments name no participant."""
    if len(arguments) != 2 or arguments[0] != "asyncapi" or ":" not in arguments[1]:
        sys.stderr.write(USAGE)
        return 2
    module, _, attribute = arguments[1].partition(":")
    found = getattr(import_module(module), attribute, None)
    if not isinstance(found, Participant):
        sys.stderr.write(f"{arguments[1]} is no Participant\n{USAGE}")
        return 2
    sys.stdout.write(json_text(found.asyncapi()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
