"""Isolation of poison: which slices of a failed batch to try next, as a plain generator.

The generator yields slices and is sent None (it went through) or the error that the slice
caused. A failed slice is halved between sagas (record keys) while it has several, then between
records, so that few transactions find few bad records and a record that went through is not
run again. Slices keep the order of the batch, and a key's records are tried in their order.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sagabus_messages.record import Record

__all__ = ["Isolation", "Poison", "isolate"]

_Numbered: TypeAlias = tuple[int, Record]
_Groups: TypeAlias = list[list[_Numbered]]


@dataclass(frozen=True, slots=True)
class Poison:
    """A record that failed alone, with its last error and how often it was tried."""

    record: Record
    error: Exception
    attempts: int


Isolation: TypeAlias = Generator[Sequence[Record], Exception | None, list[Poison]]


def isolate(records: Sequence[Record]) -> Isolation:
    """Yield slices of `records` to attempt until all went through or stand alone as poison.

    The first slice is the whole batch. Returns the poison in the order of the batch; the caller
    has then seen every other record go through exactly once.
    """
    poison: list[tuple[int, Poison]] = []
    pending: list[tuple[_Groups, int]] = [(_by_key(records), 1)] if records else []
    while pending:
        groups, attempts = pending.pop()
        numbered = sorted(member for group in groups for member in group)
        error = yield [record for _, record in numbered]
        if error is None:
            continue
        if len(numbered) == 1:
            number, record = numbered[0]
            poison.append((number, Poison(record, error, attempts)))
        else:
            # A stack: the first half is settled before the second, which keeps order per key.
            pending += [(half, attempts + 1) for half in reversed(_halves(groups))]
    return [entry for _, entry in sorted(poison, key=lambda pair: pair[0])]


def _by_key(records: Sequence[Record]) -> _Groups:
    """Group by saga; records without a key have no order to keep and stand for themselves."""
    groups: dict[bytes | int, list[_Numbered]] = {}
    for number, record in enumerate(records):
        groups.setdefault(number if record.key is None else record.key, []).append((number, record))
    return list(groups.values())


def _halves(groups: _Groups) -> tuple[_Groups, _Groups]:
    if len(groups) == 1:
        (only,) = groups
        middle = len(only) // 2
        return [only[:middle]], [only[middle:]]
    middle = len(groups) // 2
    return groups[:middle], groups[middle:]
