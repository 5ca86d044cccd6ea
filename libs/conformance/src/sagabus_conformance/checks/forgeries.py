"""Records that no orchestrator writes: none has an effect, none holds what is behind it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from sagabus_conformance.case import Case, EffectBound
from sagabus_conformance.checks.registry import Check
from sagabus_conformance.errors import Breach
from sagabus_conformance.evidence import Dead
from sagabus_conformance.guarantees import Guarantee
from sagabus_core.vocabulary import Phase
from sagabus_messages import Command, OutboxRow

__all__ = ["CHECKS"]

ERROR: Final = "sagabus-error-"


@dataclass(frozen=True, slots=True)
class Forgery:
    """A record, the codes under which it may be set aside, and the effects that it names."""

    name: str
    row: OutboxRow
    codes: frozenset[str]
    effects: tuple[str, ...]


async def poison(case: Case) -> None:
    """All forgeries on one key, then a good command behind them."""
    forgeries = list(_forgeries(case))
    for forgery in forgeries:
        for effect in forgery.effects:
            case.forged.add(effect)
            case.bounds[effect] = EffectBound(effect, 0, 0, Guarantee.FORGERIES)
        await case.send_raw(forgery.row, forgery.name)
    marker = case.command(Phase.EXECUTE, activation="behind-them")
    await case.ask(marker, silence=Guarantee.POISON, note="behind the forgeries")


async def dead_letters(case: Case) -> None:
    """Each forgery is found among the dead letters, as it was."""
    forgeries = list(_forgeries(case))
    for forgery in forgeries:
        case.forged.update(forgery.effects)
        await case.send_raw(forgery.row, forgery.name)
    deadline = time.monotonic() + case.within_s
    for forgery in forgeries:
        letter = await _letter(case, forgery, deadline)
        headers = dict(letter.record.headers)
        code = headers.get(f"{ERROR}reason", b"").decode(errors="replace")
        if code not in forgery.codes:
            raise Breach(
                Guarantee.DEAD_LETTERED,
                f"{forgery.name}: the reason is `{code}`, not {' or '.join(sorted(forgery.codes))}",
            )
        if headers.get(f"{ERROR}source-topic", b"").decode() != case.lab.command_topic:
            raise Breach(
                Guarantee.DEAD_LETTERED, f"{forgery.name}: {ERROR}source-topic is not the topic"
            )


async def _letter(case: Case, forgery: Forgery, deadline: float) -> Dead:
    while True:
        case.box.news.clear()
        for letter in case.box.dead:
            same_headers = set(forgery.row.headers) <= set(letter.record.headers)
            if letter.record.value == forgery.row.value and same_headers:
                return letter
        if not await case.news(deadline):
            raise Breach(
                Guarantee.DEAD_LETTERED,
                f"{forgery.name}: no such record on {case.lab.command_topic}.dlt",
            )


def _forgeries(case: Case) -> Iterator[Forgery]:
    yield from _forged_ids(case)
    yield from _disagreeing(case)
    yield from _unreadable(case)


def _forged_ids(case: Case) -> Iterator[Forgery]:
    mismatch = "identity_mismatch"
    good = _command(case, "forged-effect")
    yield _forged("effect id that does not derive", case, good, mismatch, effect_id=str(uuid4()))
    good = _command(case, "forged-tenant")
    yield _forged("tenant of another saga", case, good, mismatch, tenant="somebody-else")
    good = _command(case, "forged-attempt")
    yield _forged("attempt that is not the command id's", case, good, mismatch, attempt=7)
    good = _command(case, "forged-step")
    yield _forged("step of somebody else", case, good, "unknown_step", step="no-step-of-yours")


def _disagreeing(case: Case) -> Iterator[Forgery]:
    row, effects = _good_row(case, "other-record-id")
    headers = _with(row, ce_id=str(uuid4()))
    code = "header_body_mismatch"
    yield Forgery("ce_id of another command", replace(row, headers=headers), _one(code), effects)
    row, effects = _good_row(case, "other-saga")
    body = json.loads(row.value or b"")
    body["saga_id"] = str(uuid4())
    codes = frozenset({code, "identity_mismatch"})
    yield Forgery("saga id that is not the key", _with_body(row, body), codes, effects)
    row, effects = _good_row(case, "version-2")
    headers = _with(row, ce_type="sagabus.command.v2")
    yield Forgery(
        "unknown version", replace(row, headers=headers), _one("unknown_version"), effects
    )
    row, effects = _good_row(case, "no-time")
    headers = tuple(pair for pair in row.headers if pair[0] != "ce_time")
    yield Forgery("no ce_time", replace(row, headers=headers), _one("missing_header"), effects)


def _unreadable(case: Case) -> Iterator[Forgery]:
    row, effects = _good_row(case, "broken-json")
    value = (row.value or b"")[:-1]
    yield Forgery("broken JSON", replace(row, value=value), _one("invalid_json"), effects)
    row, effects = _good_row(case, "twice")
    value = b'{"attempt":1,' + (row.value or b"")[1:]
    yield Forgery("duplicate member", replace(row, value=value), _one("duplicate_key"), effects)
    row, effects = _good_row(case, "no-expiry")
    body = json.loads(row.value or b"")
    del body["expires_at"]
    yield Forgery("no expires_at", _with_body(row, body), _one("missing_field"), effects)
    row, effects = _good_row(case, "with-target")
    body = {"target": "EXECUTE", **json.loads(row.value or b"")}
    codes = frozenset({"forbidden_combination", "identity_mismatch"})
    yield Forgery("EXECUTE with a target", _with_body(row, body), codes, effects)


def _command(case: Case, activation: str) -> Command:
    return case.command(Phase.EXECUTE, activation=activation)


def _good_row(case: Case, activation: str) -> tuple[OutboxRow, tuple[str, ...]]:
    command = _command(case, activation)
    return case.row(command), (command.effect_id, command.command_id)


def _forged(name: str, case: Case, good: Command, code: str, **changed: object) -> Forgery:
    bad = good.model_copy(update=changed)
    effects = (good.effect_id, bad.effect_id, good.command_id)
    return Forgery(name, case.row(bad), _one(code), effects)


def _one(code: str) -> frozenset[str]:
    return frozenset({code})


def _with(row: OutboxRow, **changed: str) -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (name, changed[name].encode() if name in changed else value) for name, value in row.headers
    )


def _with_body(row: OutboxRow, body: dict[str, Any]) -> OutboxRow:
    return replace(row, value=json.dumps(body, ensure_ascii=False).encode())


CHECKS: Final = (
    Check("poison", poison, (Guarantee.POISON, Guarantee.FORGERIES)),
    Check("dead-letters", dead_letters, (Guarantee.DEAD_LETTERED,)),
)
