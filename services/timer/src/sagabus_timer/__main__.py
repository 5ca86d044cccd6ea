"""`python -m sagabus_timer`: run the timer; `python -m sagabus_timer migrate`: its migrations."""

from __future__ import annotations

import asyncio
import sys

from sagabus_runtime import load, run_service
from sagabus_store import migrate
from sagabus_timer.app import COMPONENTS, build
from sagabus_timer.config import TimerSettings


def main(arguments: list[str]) -> int:
    """Run the command and return the exit code of the process."""
    match arguments:
        case []:
            return run_service("timer", build, TimerSettings)
        case ["migrate"]:
            dsn = load(TimerSettings).postgres.get_secret_value()
            asyncio.run(migrate(dsn, list(COMPONENTS)))
            return 0
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
