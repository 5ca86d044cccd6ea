"""Named points at which a test or a drill makes the process fail; they cost nothing unarmed.

Armed by `SAGABUS_FAILPOINTS="name=exit@3;other=error:08006@1;third=stall:500ms"` or, in a test,
by `armed` and `on`. Actions:

- `exit`: the process dies at once with code 137, as after kill -9;
- `error:<kind>`: `connection` raises ConnectionResetError, `timeout` raises TimeoutError, any
  other word (a SQLSTATE for the store) raises `InjectedFault` of that kind;
- `stall:<n>ms`: waits; at `hit` the whole process stands still, at `reach` only this task.

`@n` acts at the n-th hit only; without it at every hit.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from sagabus_runtime.errors import InjectedFault, SettingsError

__all__ = ["ENV_VARIABLE", "arm", "arm_from_env", "armed", "disarm", "hit", "hits", "on", "reach"]

ENV_VARIABLE: Final = "SAGABUS_FAILPOINTS"
EXIT_CODE: Final = 137

_ENTRY = re.compile(
    r"(?P<name>[a-z0-9.-]+)=(?:(?P<exit>exit)|error:(?P<error>\w+)|stall:(?P<stall>\d+)ms)"
    r"(?:@(?P<at>[1-9]\d*))?"
)


@dataclass(frozen=True, slots=True)
class _Exit:
    """Die as after kill -9: no handler, no flush."""


@dataclass(frozen=True, slots=True)
class _Fail:
    """Raise an error of this kind."""

    kind: str


@dataclass(frozen=True, slots=True)
class _Stall:
    """Wait."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class _Call:
    """Call back into a test."""

    callback: Callable[[], None]


_Action: TypeAlias = _Exit | _Fail | _Stall | _Call


@dataclass(slots=True)
class _Point:
    action: _Action
    at: int | None
    hits: int = 0


# None, not an empty dict: the unarmed check is one load and one comparison.
_points: dict[str, _Point] | None = None


def hit(name: str) -> None:
    """Act if `name` is armed; a stall stops the whole process, like SIGSTOP."""
    if _points is None:
        return
    stall_ms = _act(name)
    if stall_ms:
        time.sleep(stall_ms / 1000)


async def reach(name: str) -> None:
    """Act if `name` is armed; a stall holds this task alone."""
    if _points is None:
        return
    stall_ms = _act(name)
    if stall_ms:
        await asyncio.sleep(stall_ms / 1000)


def arm(spec: str) -> None:
    """Arm what `spec` lists and nothing else.

    Raises `SettingsError` (`invalid_failpoints`) for a spec that does not parse: a drill must not
    pass because of a typing error.
    """
    global _points  # noqa: PLW0603  (one process has one set of failpoints)
    points = dict(_parse(entry.strip()) for entry in spec.split(";") if entry.strip())
    _points = points or None


def disarm() -> None:
    """Return to doing nothing."""
    arm("")


def arm_from_env() -> str:
    """Arm what `SAGABUS_FAILPOINTS` lists and return it."""
    spec = os.environ.get(ENV_VARIABLE, "")
    arm(spec)
    return spec


@contextmanager
def armed(spec: str) -> Iterator[None]:
    """Arm `spec` within the block and restore what was armed before."""
    global _points  # noqa: PLW0603  (see `arm`)
    before = _points
    arm(spec)
    try:
        yield
    finally:
        _points = before


@contextmanager
def on(name: str, callback: Callable[[], None]) -> Iterator[None]:
    """Call `callback` at every hit of `name` within the block; what it raises is raised there."""
    global _points  # noqa: PLW0603  (see `arm`)
    before = _points
    _points = {**(before or {}), name: _Point(_Call(callback), None)}
    try:
        yield
    finally:
        _points = before


def hits(name: str) -> int:
    """Return how often an armed point was hit; 0 for one that is not armed."""
    point = (_points or {}).get(name)
    return point.hits if point else 0


def _act(name: str) -> int:
    """Count the hit, act, and return how many milliseconds the caller has to wait."""
    point = (_points or {}).get(name)
    if point is None:
        return 0
    point.hits += 1
    if point.at is not None and point.at != point.hits:
        return 0
    match point.action:
        case _Exit():
            os._exit(EXIT_CODE)
        case _Fail(kind):
            raise _error(name, kind)
        case _Stall(duration_ms):
            return duration_ms
        case _Call(callback):
            callback()
            return 0
        case _:
            assert_never(point.action)


def _error(name: str, kind: str) -> Exception:
    if kind == "connection":
        return ConnectionResetError(f"failpoint {name}")
    if kind == "timeout":
        return TimeoutError(f"failpoint {name}")
    return InjectedFault("injected_fault", f"failpoint {name} raises {kind}", kind)


def _parse(entry: str) -> tuple[str, _Point]:
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise SettingsError(
            "invalid_failpoints",
            f"{ENV_VARIABLE}: {entry!r} is none of name=exit, name=error:KIND, name=stall:500ms,"
            " each with an optional @n",
        )
    at = int(found["at"]) if found["at"] else None
    if found["exit"]:
        return found["name"], _Point(_Exit(), at)
    if found["error"]:
        return found["name"], _Point(_Fail(found["error"]), at)
    return found["name"], _Point(_Stall(int(found["stall"])), at)
