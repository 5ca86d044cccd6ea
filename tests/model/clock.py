"""Abstract time: a stored snapshot only says which deadlines live, never when they are.

Every live deadline is stored as `LATER`. An event that may let deadlines act is tried once for
each way in which any of them can have passed (one per activation, and the instance deadline), so
every order and every tie of every deadline is explored, whatever the configured durations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final, TypeAlias, TypeVar

from sagabus_core.engine import Activation, Channel, Member, MemberState, Snapshot
from sagabus_core.engine.inputs import Input
from sagabus_core.engine.plan import facts_of
from sagabus_core.engine.snapshot import evolve
from sagabus_core.engine.vocabulary import UNDO_CHANNELS

__all__ = ["LATER", "NOW", "WEAK", "Due", "canonical_key", "dues", "normal", "with_due"]

NOW: Final = 1_000_000_000
LATER: Final = NOW + 2_000
"""Sooner than any new deadline, later than any backoff: both orders occur."""

_TIMES: Final = ("deadline_at_ms", "retry_at_ms", "budget_at_ms")
_Track = TypeVar("_Track", bound=Activation | Member)
_YES: Final = {Input.EXECUTE_SUCCEEDED, Input.FOUND_SUCCEEDED, Input.RESOLVED_SUCCEEDED}
WEAK: Final = frozenset({"U", "H", "P", "TH"})
_ENOUGH: Final = 9
"""Attempts of a settled track: whatever still answers one of them, it was issued."""

FORWARD_CHANNELS: Final = tuple(channel for channel in Channel if channel not in UNDO_CHANNELS)

_TRACK_FIELDS: Final = (
    "halted", "attested", "used", "resolve_used", "recovery_operation_id",
)  # fmt: skip

Due: TypeAlias = tuple[tuple[str, str, str], ...]
"""What has passed: ("activations" | "members" | "saga", path, field)."""


def normal(snapshot: Snapshot, *, exact: bool = True) -> Snapshot:
    """Return the snapshot without version numbers and with all live deadlines at `LATER`.

    Unless `exact`, what nothing can read again is forgotten too: of a settled track everything
    but its outcome, and the weak answers of superseded attempts.
    """
    activations = {path: _later_track(track) for path, track in snapshot.activations.items()}
    members = {path: _later_track(track) for path, track in snapshot.members.items()}
    if not exact:
        activations = {path: _forget(track) for path, track in activations.items()}
        members = {path: _forget_undo(track) for path, track in members.items()}
    return snapshot._replace(
        revision=1,
        generation=1 if snapshot.generation else 0,
        armed_at_ms=_later(snapshot.armed_at_ms),
        deadline_at_ms=_later(snapshot.deadline_at_ms),
        activations=activations,
        members=members,
    )


def _later(at_ms: int | None) -> int | None:
    return None if at_ms is None else LATER


def _later_track(track: _Track) -> _Track:
    times: dict[str, object] = {
        name: LATER for name in _TIMES if getattr(track, name) not in {None, LATER}
    }
    if isinstance(track, Activation) and track.execute_expires_at_ms not in {0, LATER}:
        times["execute_expires_at_ms"] = LATER
    return evolve(track, **times) if times else track


def _forget(track: Activation) -> Activation:
    if track.is_open:
        return evolve(track, answers=_current(track))
    yes = facts_of(track) & _YES
    return Activation(
        track.state,
        attempts=dict.fromkeys(FORWARD_CHANNELS, _ENOUGH),
        answers={f"E{_ENOUGH}": "S"} if yes else {},
        attested=track.attested,
        success_sequence=track.success_sequence,
        execute_expires_at_ms=LATER,
    )


def _forget_undo(track: Member) -> Member:
    if track.state is not MemberState.COMPENSATED:
        return evolve(track, answers=_current(track))
    return Member(
        track.state,
        attempts=dict.fromkeys(UNDO_CHANNELS, _ENOUGH),
        answers={f"K{_ENOUGH}": "S"} if facts_of(track) else {},
        attested=track.attested,
    )


def _current(track: Activation | Member) -> dict[str, str]:
    """Return the answers without the weak ones of superseded attempts."""
    return {
        f"{channel.value}{attempt}": words
        for channel, attempts in track.attempts.items()
        for attempt in range(1, attempts + 1)
        if (words := track.answers.get(f"{channel.value}{attempt}"))
        and (attempt == attempts or not WEAK.issuperset(words.split("+")))
    }


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
    if not due:
        return snapshot
    activations, members = dict(snapshot.activations), dict(snapshot.members)
    deadline = snapshot.deadline_at_ms
    for kind, path, name in due:
        if kind == "saga":
            deadline = NOW
        elif kind == "activations":
            activations[path] = evolve(activations[path], **{name: NOW})
        else:
            members[path] = evolve(members[path], **{name: NOW})
    return snapshot._replace(
        deadline_at_ms=deadline,
        activations=activations,
        members=members,
        armed_at_ms=None if snapshot.armed_at_ms is None else NOW,
    )
