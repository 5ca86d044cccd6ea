"""`make bench`: every figure with its floor, into build/bench.json.

`python -m tests.bench [--only engine,relay,takeover] [--sagas N] [--seconds N]`
Parts: engine, relay, takeover, reconciler, participant, participant-many, timer, api, saga, size.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.bench import saga, saga_size
from tests.bench.report import keep

__all__ = ["main"]

ALONE = {
    "engine": ("engine_rate",),
    "participant": ("participant_rate",),
    "participant-many": ("participant_rate", "many"),
    "relay": ("relay_rate",),
    "takeover": ("relay_takeover",),
    "reconciler": ("reconciler_scale", "100000"),
    "timer": ("timer_rate", "100000"),
    "api": ("api_rate",),
}
"""Each part by itself: a script that keeps its own figures."""


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", default=",".join((*ALONE, "saga", "size")))
    parser.add_argument("--sagas", type=int, default=10_000, help="sagas of the rate; 0: no rate")
    parser.add_argument("--seconds", type=int, default=30, help="of the latency; 0: no latency")
    parser.add_argument("--instances", type=int, default=1_000_000, help="in the table, for size")
    wanted = parser.parse_args()
    failed = []
    for name in wanted.only.split(","):
        if name == "saga":
            keep(saga.measure(wanted.sagas, wanted.seconds))
        elif name == "size":
            keep(saga_size.measure(wanted.instances, min(wanted.sagas, saga_size.SAGAS)))
        elif name in ALONE:
            script, *arguments = ALONE[name]
            argv = [sys.executable, "-m", f"tests.bench.{script}", *arguments]
            if subprocess.run(argv, check=False).returncode != 0:
                failed.append(name)
        else:
            parser.error(f"no such benchmark: {name}")
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
