"""How many transitions `decide` makes per second on one core, on serial flows without digests.

Run it: `python -m tests.bench --only engine`. Prints JSON and writes it to build/bench.json;
asserts nothing. A transition is one answer that settles a step and issues the
next one; starts (they derive the saga id) are made beforehand, ids of commands are not derived.
The floor is the bare cost of what no engine can save: one new snapshot with one new activation.
"""

import gc
import statistics
import time
from collections.abc import Callable

from tests.bench.report import keep

from sagabus_core.definitions import Definition, NoConditions, parse_definition
from sagabus_core.engine import ResultReceived, StartRequest, decide, start
from sagabus_core.testing import compensatable, document, pivot, retriable
from sagabus_core.vocabulary import Phase, ResultStatus

RUNS, SAGAS = 9, 400
NOW_MS = 1_000_000_000_000


def serial(length: int) -> Definition:
    """Return `length` steps: compensatable ones, a pivot, and a retriable one at the end."""
    steps = {f"s{number}": compensatable() for number in range(length - 2)}
    steps |= {"pay": pivot(), "tell": retriable()}
    return parse_definition(document(steps, *steps), NoConditions())


def answers(definition: Definition) -> list[ResultReceived]:
    """Return the successes of all steps, in order."""
    return [
        ResultReceived(f"event-{path}", path, Phase.EXECUTE, 1, ResultStatus.SUCCEEDED)
        for path in definition.nodes
    ]


def engine(definition: Definition) -> Callable[[], int]:
    """Return a run over many sagas from their start to COMPLETED; it returns its transitions."""
    first = start(definition, StartRequest("acme", "order-1", "start-1"), NOW_MS).snapshot
    events = answers(definition)

    def run() -> int:
        for _ in range(SAGAS):
            snapshot = first
            for event in events:
                snapshot = decide(definition, snapshot, event, NOW_MS).snapshot
        return SAGAS * len(events)

    return run


def floor(definition: Definition) -> Callable[[], int]:
    """Return a run that only copies: the activations, one of them changed, and the snapshot."""
    first = start(definition, StartRequest("acme", "order-1", "start-1"), NOW_MS).snapshot
    path, activation = next(iter(first.activations.items()))
    repeats = SAGAS * len(definition.nodes)

    def run() -> int:
        for number in range(repeats):
            tracks = dict(first.activations)
            tracks[path] = activation._replace(deadline_at_ms=number)
            first._replace(activations=tracks, revision=number)
        return repeats

    return run


def rate(run: Callable[[], int]) -> float:
    """Return what one run does per second of this process's own time."""
    began = time.process_time()
    done = run()
    return done / (time.process_time() - began)


def measure(definition: Definition) -> dict[str, float]:
    """Return the medians of the engine and of its floor, measured in turns."""
    deciding, copying = engine(definition), floor(definition)
    rate(deciding), rate(copying)  # warm
    pairs = [(rate(deciding), rate(copying)) for _ in range(RUNS)]
    value, least = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"value": round(value), "floor": round(least), "ratio": round(value / least, 3)}


def main() -> None:
    """Measure and keep."""
    gc.disable()
    found = {"engine_tps": measure(serial(5)), "engine_tps_20_steps": measure(serial(20))}
    keep(found)


if __name__ == "__main__":
    main()
