"""`python -m sagabus_relay`: run the relay; `python -m sagabus_relay migrate`: its migrations."""

from __future__ import annotations

import asyncio
import sys

from sagabus_relay.app import COMPONENTS, build
from sagabus_relay.config import RelaySettings
from sagabus_runtime import load, run_service
from sagabus_store import migrate


def main(arguments: list[str]) -> int:
    """Run the command and return the exit code of the process."""
    match arguments:
        case []:
            return run_service("relay", build, RelaySettings)
        case ["migrate"]:
            dsn = load(RelaySettings).postgres.get_secret_value()
            asyncio.run(migrate(dsn, list(COMPONENTS)))
            return 0
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
