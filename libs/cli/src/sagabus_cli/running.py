"""Start many sagas, follow them with a progress bar, sum up how they ended."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sagabus_cli.connection import current_connection
from sagabus_cli.output import current_output
from sagabus_client import Outcome, OutcomePending, SagabusClient, SagaHandle, StartCommand
from sagabus_core.vocabulary import SagaStatus

__all__ = ["PENDING", "Summary", "percentile", "run_all"]

PENDING: Final = "PENDING"
_GOOD: Final = frozenset({str(SagaStatus.COMPLETED), str(SagaStatus.COMPENSATED)})
_CHUNK: Final = 100


@dataclass(frozen=True, slots=True)
class _Ended:
    key: str
    status: str
    reason_code: str | None
    latency_ms: int


@dataclass(frozen=True, slots=True)
class Summary:
    """How the sagas of a run ended."""

    ended: Sequence[_Ended]
    took_s: float

    @property
    def is_good(self) -> bool:
        """Whether every saga ended COMPLETED or COMPENSATED."""
        return all(each.status in _GOOD for each in self.ended)

    @property
    def bad(self) -> list[str]:
        """One line for every other saga."""
        return [
            f"{each.key}: {each.status}{f' ({each.reason_code})' if each.reason_code else ''}"
            for each in self.ended
            if each.status not in _GOOD
        ]

    def document(self) -> dict[str, object]:
        """Return the summary for programs."""
        return {
            "started": len(self.ended),
            "seconds": round(self.took_s, 3),
            "outcomes": {
                status: {"count": len(ms), "p50_ms": percentile(ms, 50), "max_ms": max(ms)}
                for status, ms in self._by_status()
            },
            "sagas": [
                {
                    "key": each.key,
                    "status": each.status,
                    "reason_code": each.reason_code,
                    "latency_ms": each.latency_ms,
                }
                for each in self.ended
            ],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows of the table for people."""
        return [
            (
                status,
                str(len(ms)),
                *(f"{value / 1000:.2f} s" for value in (percentile(ms, 50), percentile(ms, 99))),
                f"{max(ms) / 1000:.2f} s",
            )
            for status, ms in self._by_status()
        ]

    def _by_status(self) -> Iterator[tuple[str, list[int]]]:
        for status in sorted({each.status for each in self.ended}):
            yield status, [each.latency_ms for each in self.ended if each.status == status]


def percentile(values: Sequence[int], percent: int) -> int:
    """Return the nearest-rank percentile of at least one value."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


async def run_all(commands: Sequence[StartCommand], timeout_s: float) -> Summary:
    """Start every saga and wait for all outcomes, at most `timeout_s` seconds."""
    connection = current_connection()
    begun = time.monotonic()
    with _progress(len(commands)) as progress:
        async with SagabusClient(connection.bus, connection.topics, name="cli") as client:
            handles: list[SagaHandle] = []
            for first in range(0, len(commands), _CHUNK):
                handles += await client.start_all(commands[first : first + _CHUNK])
            deadline = time.monotonic() + timeout_s
            waits = [_ended(client, handle, deadline, progress) for handle in handles]
            ended = await asyncio.gather(*waits)
    return Summary(ended, time.monotonic() - begun)


async def _ended(
    client: SagabusClient, handle: SagaHandle, deadline: float, progress: _Progress
) -> _Ended:
    outcome: Outcome | None
    try:
        outcome = await client.wait(handle, timeout_s=max(0.0, deadline - time.monotonic()))
    except OutcomePending:
        outcome = None
    progress.advance()
    if outcome is None:
        waited_ms = int(time.time() * 1000) - handle.started_at_ms
        return _Ended(handle.business_key, PENDING, None, waited_ms)
    latency_ms = max(0, outcome.occurred_at_ms - handle.started_at_ms)
    return _Ended(handle.business_key, str(outcome.status), outcome.reason_code, latency_ms)


class _Progress:
    """A bar on a terminal; elsewhere nothing, the summary says it all."""

    def advance(self) -> None:
        """One saga more has an outcome."""


@contextlib.contextmanager
def _progress(total: int) -> Iterator[_Progress]:
    if current_output().as_json or not sys.stderr.isatty():
        yield _Progress()
        return
    from rich.console import Console  # noqa: PLC0415 - slow, and only people want it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn  # noqa: PLC0415

    columns = ("[bold]sagas", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("sagas", total=total)

        class Bar(_Progress):
            def advance(self) -> None:
                bar.advance(task)

        yield Bar()
