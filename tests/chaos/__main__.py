"""`make chaos`: real services under load while everything breaks; writes build/chaos.json."""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.campaign import Campaign, run_campaign

from sagabus_testkit import LocalStack

__all__ = ["main"]


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Return 0 if the verdict is good, 1 if not."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load and faults")
    parser.add_argument("--seed", type=int, help="the same seed inflicts the same faults")
    parser.add_argument("--rate", type=float, default=30.0, help="orders per second")
    parser.add_argument("--settle", type=float, default=300.0, help="seconds to converge after")
    parser.add_argument("--output", type=Path, default=Path("build/chaos.json"))
    chosen = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(100_000) if chosen.seed is None else chosen.seed
    _tell(f"chaos: SECONDS={chosen.seconds:g} SEED={seed}, {chosen.rate:g} orders per second")
    logs = chosen.output.parent / f"chaos-logs-{os.getpid()}"
    logs.mkdir(parents=True, exist_ok=True)
    # What the drivers of the load say of every outage belongs beside what the services say.
    logging.basicConfig(filename=logs / "load.log", level=logging.WARNING)
    campaign = Campaign(seed, chosen.seconds, logs, chosen.rate, chosen.settle)
    with LocalStack(f"chaos-{os.getpid()}") as stack:
        verdict = run_campaign(campaign, stack.start(), _tell)
    document = verdict.document()
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(json.dumps(document, indent=2) + "\n")
    for line in verdict.table():
        _tell(line)
    _tell(f"{chosen.output}, logs in {logs}")
    return 0 if document["good"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
