"""Snapshots as plain JSON values: short keys, defaults left out, lists where order matters."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from sagabus_core.canonical import JsonValue
from sagabus_core.engine.snapshot import (
    SNAPSHOT_SCHEMA,
    Abort,
    Activation,
    Member,
    Plan,
    Snapshot,
    Track,
)
from sagabus_core.engine.vocabulary import Channel, ForwardState, ManualReason, MemberState
from sagabus_core.errors import SnapshotTooNew
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Control, Direction, SagaStatus

__all__ = ["from_json", "to_json"]

_KEYS: Final = {
    "attempts": "n",
    "answers": "a",
    "halted": "h",
    "attested": "att",
    "used": "u",
    "resolve_used": "ru",
    "deadline_at_ms": "d",
    "retry_at_ms": "r",
    "budget_at_ms": "b",
    "recovery_operation_id": "op",
    "late": "l",
    "success_sequence": "ss",
    "execute_expires_at_ms": "x",
}
_APART: Final = 3
"""The first fields of both tracks, `state`, `attempts` and `answers`, are written apart."""
_PLAIN: Final = {
    kind: tuple((name, _KEYS[name], kind._field_defaults[name]) for name in kind._fields[_APART:])
    for kind in (Activation, Member)
}
_NAMES: Final = {
    kind: {_KEYS[name]: name for name in kind._fields[_APART:]} for kind in (Activation, Member)
}
# Looked up several times for each saga of a batch; calling the enumeration takes six times as long.
_STATUS: Final = {status.value: status for status in SagaStatus}
_FORWARD: Final = {state.value: state for state in ForwardState}
_CHANNEL: Final = {channel.value: channel for channel in Channel}


def to_json(snapshot: Snapshot) -> dict[str, JsonValue]:
    """Return a JSON object that `from_json` turns into an equal snapshot.

    Key order of objects does not matter to it, so any JSON store may hold it.
    """
    return {
        "v": SNAPSHOT_SCHEMA,
        "id": snapshot.saga_id,
        "tenant": snapshot.tenant,
        "workflow": snapshot.workflow,
        "key": snapshot.business_key,
        "version": snapshot.definition_version,
        "digest": snapshot.definition_digest,
        "rev": snapshot.revision,
        "status": snapshot.status,
        "control": snapshot.control,
        "direction": snapshot.direction,
        "deadline": snapshot.deadline_at_ms,
        "passed": snapshot.deadline_passed,
        "next": snapshot.next_success,
        "armed": snapshot.armed_at_ms,
        "gen": snapshot.generation,
        **_parts(snapshot),
    }


def _parts(snapshot: Snapshot) -> dict[str, JsonValue]:
    abort, plan = snapshot.abort, snapshot.plan
    return {
        "abort": None if abort is None else [abort.reason, abort.cause],
        "vars": dict(snapshot.variables),
        "acts": [[path, _pack(track)] for path, track in snapshot.activations.items()],
        "members": [[path, _pack(track)] for path, track in snapshot.members.items()],
        "branches": dict(snapshot.branches),
        "why": [[key, reason] for key, reason in snapshot.reasons.items()],
        "payloads": [[path, *_pack_payload(p)] for path, p in snapshot.payloads.items()],
        "plan": None if plan is None else [plan.version, plan.digest, list(plan.members)],
    }


def from_json(data: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot, or raise `SnapshotTooNew` for one that a newer release wrote."""
    if data["v"] > SNAPSHOT_SCHEMA:
        raise SnapshotTooNew(
            "snapshot_too_new", f"schema {data['v']} is newer than {SNAPSHOT_SCHEMA}"
        )
    # fmt: off
    return Snapshot(
        data["id"], data["tenant"], data["workflow"], data["key"], data["version"],
        data["digest"], data["rev"],
        _STATUS[data["status"]], Control(data["control"]), Direction(data["direction"]),
        Abort(*data["abort"]) if data["abort"] else None,
        data["deadline"], data["passed"], data["vars"],
        {path: _activation(packed) for path, packed in data["acts"]},
        {path: _member(packed) for path, packed in data["members"]},
        data["branches"],
        {key: ManualReason(reason) for key, reason in data["why"]},
        {path: _payload(*packed) for path, *packed in data["payloads"]},
        _plan(*data["plan"]) if data["plan"] else None,
        data["next"], data["armed"], data["gen"],
    )
    # fmt: on


def _pack(track: Track) -> dict[str, JsonValue]:
    packed: dict[str, JsonValue] = {"s": track.state}
    if track.attempts:
        packed["n"] = {channel.value: n for channel, n in track.attempts.items()}
    if track.answers:
        packed["a"] = dict(track.answers)
    for name, key, default in _PLAIN[type(track)]:
        value = getattr(track, name)
        if value != default:
            packed[key] = value
    return packed


def _activation(packed: Mapping[str, Any]) -> Activation:
    return Activation(_FORWARD[packed["s"]], **_unpack(packed, Activation))


def _member(packed: Mapping[str, Any]) -> Member:
    return Member(MemberState(packed["s"]), **_unpack(packed, Member))


def _unpack(packed: Mapping[str, Any], kind: type[Track]) -> dict[str, Any]:
    names = _NAMES[kind]
    values = {names[key]: value for key, value in packed.items() if key in names}
    values["attempts"] = {_CHANNEL[channel]: n for channel, n in packed.get("n", {}).items()}
    values["answers"] = packed.get("a", {})
    return values


def _plan(version: int, digest: str, members: list[str]) -> Plan:
    return Plan(version, digest, tuple(members))


def _pack_payload(payload: Payload) -> list[str]:
    body = base64.b64encode(payload.body).decode("ascii")
    return [payload.content_type, payload.schema_id, body]


def _payload(content_type: str, schema_id: str, body: str) -> Payload:
    return Payload(content_type, schema_id, base64.b64decode(body))
