"""Backward compatibility of a contract with its last release.

Both directions count, since old and new processes run side by side: what old writers send must
still be accepted, and what old readers rely on must still be sent. Whatever breaks that needs a
new version in the name of the message. Rules that cannot be compared piece by piece (patterns,
conditions) may not change at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["breaking_changes", "breaking_topic_changes"]

_Schema = dict[str, Any]
_LOWER_BOUNDS = ("minimum", "minLength", "minItems")
_UPPER_BOUNDS = ("maximum", "maxLength", "maxItems")
_FIXED = (
    "$id",
    "type",
    "const",
    "pattern",
    "format",
    "not",
    "if",
    "then",
    "else",
    "allOf",
    "items",
)


def breaking_changes(old: _Schema, new: _Schema) -> list[str]:
    """Return each difference of `new` from `old` that breaks a reader or writer of `old`."""
    return list(_compare(_inlined(old, old), _inlined(new, new), "body"))


def breaking_topic_changes(old: _Schema, new: _Schema) -> list[str]:
    """Return each topic of the released catalogue that vanished, changed hands or shrank."""
    problems: list[str] = []
    current = {topic["address"]: topic for topic in new["topics"]}
    for topic in old["topics"]:
        address = topic["address"]
        now = current.get(address)
        if now is None:
            problems.append(f"{address}: removed")
            continue
        problems += [
            f"{address}: {name} changed"
            for name in ("kind", "dead_letter", "written_by")
            if topic[name] != now[name]
        ]
        problems += [
            f"{address}: {name} shrank"
            for name in ("max.message.bytes", "retention.ms")
            if int(now["config"][name]) < int(topic["config"][name])
        ]
    return problems


def _compare(old: _Schema, new: _Schema, where: str) -> Iterator[str]:
    for name in _FIXED:
        if old.get(name) != new.get(name):
            yield f"{where}: `{name}` changed"
    yield from _compare_limits(old, new, where)
    yield from _compare_values(old, new, where)
    yield from _compare_members(old, new, where)
    if len(old.get("anyOf", [])) != len(new.get("anyOf", [])):
        yield f"{where}: the alternatives changed"
    else:
        for before, after in zip(old.get("anyOf", []), new.get("anyOf", []), strict=True):
            yield from _compare(before, after, where)


def _compare_limits(old: _Schema, new: _Schema, where: str) -> Iterator[str]:
    for name in _LOWER_BOUNDS:
        if name in new and (name not in old or new[name] > old[name]):
            yield f"{where}: `{name}` narrowed"
    for name in _UPPER_BOUNDS:
        if name in new and (name not in old or new[name] < old[name]):
            yield f"{where}: `{name}` narrowed"
        if name in old and (name not in new or new[name] > old[name]):
            yield f"{where}: `{name}` widened, old readers refuse more than they did"


def _compare_values(old: _Schema, new: _Schema, where: str) -> Iterator[str]:
    before, after = old.get("enum"), new.get("enum")
    if (before is None) != (after is None):
        yield f"{where}: `enum` came or went"
    elif before is not None and after is not None:
        if lost := sorted(set(before) - set(after)):
            yield f"{where}: values {lost} removed"
        if added := sorted(set(after) - set(before)):
            yield f"{where}: values {added} added, old readers refuse them"


def _compare_members(old: _Schema, new: _Schema, where: str) -> Iterator[str]:
    before, after = old.get("properties", {}), new.get("properties", {})
    for name, schema in before.items():
        if name in after:
            yield from _compare(schema, after[name], f"{where}.{name}")
        else:
            yield f"{where}.{name}: removed"
    for name in sorted(set(new.get("required", [])) - set(old.get("required", []))):
        yield f"{where}.{name}: newly required, old writers leave it out"
    for name in sorted(set(old.get("required", [])) - set(new.get("required", []))):
        yield f"{where}.{name}: no longer required, old readers need it"


def _inlined(node: Any, root: _Schema) -> Any:  # noqa: ANN401  # a walk over whatever JSON holds
    if isinstance(node, list):
        return [_inlined(item, root) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = root["$defs"][node["$ref"].removeprefix("#/$defs/")]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    return {key: _inlined(value, root) for key, value in node.items() if key != "$defs"}
