"""Abstract time: a stored snapshot only says which deadlines live, never when they are.

Every live deadline is stored as `LATER`. An event that may let deadlines act is tried once for
each way in which any of them can have passed (one per activation, and the instance deadline), so
every order and every tie of every deadline is explored, whatever the configured durations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Final, TypeAlias

from sagabus_core.engine import Activation, Member, Snapshot

__all__ = ["LATER", "NOW", "Due", "canonical_key", "dues", "normal", "with_due"]

NOW: Final = 1_000_000_000
LATER: Final = NOW + 2_000
"""Sooner than any new deadline, later than any backoff: both orders occur."""

_TIMES: Final = ("deadline_at_ms", "retry_at_ms", "budget_at_ms")
_TRACK_FIELDS: Final = (
    "halted", "attested", "used", "resolve_used", "recovery_operation_id",
)  # fmt: skip

Due: TypeAlias = tuple[tuple[str, str, str], ...]
"""What has passed: ("activations" | "members" | "saga", path, field)."""


def normal(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without version numbers and with all live deadlines at `LATER`."""
    return replace(
        snapshot,
        revision=1,
        generation=1 if snapshot.generation else 0,
        armed_at_ms=_later(snapshot.armed_at_ms),
        deadline_at_ms=_later(snapshot.deadline_at_ms),
        activations={path: _settle(track) for path, track in snapshot.activations.items()},
        members={path: _settle_member(track) for path, track in snapshot.members.items()},
    )


def _later(at_ms: int | None) -> int | None:
    return None if at_ms is None else LATER


def _settle(track: Activation) -> Activation:
    return replace(
        track,
        deadline_at_ms=_later(track.deadline_at_ms),
        retry_at_ms=_later(track.retry_at_ms),
        budget_at_ms=_later(track.budget_at_ms),
        execute_expires_at_ms=LATER if track.execute_expires_at_ms else 0,
    )


def _settle_member(track: Member) -> Member:
    return replace(
        track,
        deadline_at_ms=_later(track.deadline_at_ms),
        retry_at_ms=_later(track.retry_at_ms),
        budget_at_ms=_later(track.budget_at_ms),
    )


def canonical_key(snapshot: Snapshot) -> tuple[object, ...]:
    """Return a hashable value that is equal exactly for snapshots that behave equally."""
    return (
        snapshot.status, snapshot.control, snapshot.direction, snapshot.abort,
        snapshot.deadline_at_ms, snapshot.deadline_passed, snapshot.next_success,
        snapshot.armed_at_ms, snapshot.plan,
        tuple((path, _track_key(track)) for path, track in snapshot.activations.items()),
        tuple((path, _track_key(track)) for path, track in snapshot.members.items()),
        tuple(sorted(snapshot.reasons.items())),
        tuple(sorted(snapshot.branches.items())),
        tuple(sorted(snapshot.variables.items())),
        tuple(sorted((path, payload.body) for path, payload in snapshot.payloads.items())),
    )  # fmt: skip


def _track_key(track: Activation | Member) -> tuple[object, ...]:
    own = (
        (track.late, track.success_sequence, track.execute_expires_at_ms)
        if isinstance(track, Activation)
        else ()
    )
    return (
        track.state,
        tuple(sorted(track.attempts.items())),
        tuple(sorted(track.answers.items())),
        *(getattr(track, name) is not None for name in _TIMES),
        *(getattr(track, name) for name in _TRACK_FIELDS),
        own,
    )


def dues(snapshot: Snapshot) -> tuple[Due, ...]:
    """Return every way in which deadlines can have passed, none at all first."""
    choices: list[list[Due]] = [
        [(), *((("activations", path, name),) for name in names)]
        for path, names in _live(snapshot.activations)
    ]
    choices += [
        [(), *((("members", path, name),) for name in names)]
        for path, names in _live(snapshot.members)
    ]
    if snapshot.deadline_at_ms is not None and not snapshot.deadline_passed:
        choices.append([(), (("saga", "", "deadline_at_ms"),)])
    return tuple(sum(picked, ()) for picked in product(*choices))


def _live(
    tracks: Mapping[str, Activation] | Mapping[str, Member],
) -> Iterator[tuple[str, list[str]]]:
    for path, track in tracks.items():
        names = [name for name in _TIMES if getattr(track, name) is not None]
        if names:
            yield path, names


def with_due(snapshot: Snapshot, due: Due) -> Snapshot:
    """Return the snapshot at an instant when exactly `due` has passed."""
    for kind, path, name in due:
        if kind == "saga":
            snapshot = replace(snapshot, deadline_at_ms=NOW, armed_at_ms=_armed(snapshot))
        elif kind == "activations":
            changed = replace(snapshot.activations[path], **{name: NOW})
            snapshot = replace(
                snapshot,
                activations={**snapshot.activations, path: changed},
                armed_at_ms=_armed(snapshot),
            )
        else:
            undo = replace(snapshot.members[path], **{name: NOW})
            snapshot = replace(
                snapshot, members={**snapshot.members, path: undo}, armed_at_ms=_armed(snapshot)
            )
    return snapshot


def _armed(snapshot: Snapshot) -> int | None:
    return None if snapshot.armed_at_ms is None else NOW
