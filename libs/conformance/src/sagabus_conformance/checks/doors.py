"""What is checked before a handler runs: time, payload, halts, unknown members, the trace."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import Final

from sagabus_conformance.case import Case
from sagabus_conformance.checks.registry import Check, demand, told
from sagabus_conformance.errors import Breach
from sagabus_conformance.guarantees import Guarantee
from sagabus_conformance.lab import now_ms
from sagabus_conformance.profile import Profile
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import Command

__all__ = ["CHECKS"]

S: Final = ResultStatus
MISMATCH: Final = "payload_contract_mismatch"
LATE_MS: Final = 60_000


async def expired(case: Case) -> None:
    """Commands that come a minute too late; what is behind them proves that they were passed."""
    dead = _late(case.command(Phase.EXECUTE))
    case.bound(dead, 0, 0, Guarantee.EXPIRED)
    await case.send(dead, note="expired")
    undo: Command | None = None
    marker, _ = await case.succeed("marker")
    if case.profile.compensatable:
        undo = _late(case.command(Phase.COMPENSATE, activation="marker"))
        case.bound(undo, 0, 0, Guarantee.EXPIRED)
        await case.send(undo, note="expired")
    await case.settle(case.command(Phase.EXECUTE, 2, activation=marker.activation))
    late = {dead.command_id} | ({undo.command_id} if undo else set())
    if not case.profile.retriable:
        resolved = await case.ask(case.resolve(Phase.EXECUTE))
        demand(resolved, Guarantee.EXPIRED, S.REJECTED, S.UNKNOWN)
    if undo is not None:
        about = case.resolve(Phase.COMPENSATE, activation="marker")
        demand(await case.ask(about), Guarantee.EXPIRED, S.REJECTED, S.UNKNOWN)
    for result in case.box.results:
        if result.command_id in late:
            raise Breach(Guarantee.EXPIRED, f"an expired command was answered {told(result)}")


def _late(command: Command) -> Command:
    return command.model_copy(update={"expires_at_ms": now_ms() - LATE_MS})


async def bad_payload(case: Case) -> None:
    """Another schema id, another content type, and content that breaks the contract."""
    profile = case.profile
    good = profile.accepted.for_key(case.name, profile.schema_id)
    broken = {
        "schema": replace(good, schema_id=f"{profile.schema_id}.other"),
        "content": Payload("application/octet-stream", profile.schema_id, b"\x00\xff"),
    }
    if profile.invalid is not None:
        broken["data"] = profile.invalid.for_key(case.name, profile.schema_id)
    for activation, payload in broken.items():
        command = case.command(Phase.EXECUTE, activation=activation, payload=payload)
        case.bound(command, 0, 0, Guarantee.PAYLOAD)
        answer = await case.ask(command, note=f"payload with broken {activation}")
        demand(
            answer, Guarantee.PAYLOAD, S.REJECTED if profile.rejects_invalid_payload else S.HALTED
        )
        if answer.reason_code != MISMATCH:
            raise Breach(Guarantee.PAYLOAD, f"answered {told(answer)}, not `{MISMATCH}`")


async def halted(case: Case) -> None:
    """Try to leave a halt by an ordinary attempt, then by a recovery operation."""
    profile = case.profile
    good = profile.accepted.for_key(case.name, profile.schema_id)
    broken = replace(good, schema_id=f"{profile.schema_id}.other")
    first = case.command(Phase.EXECUTE, payload=broken)
    demand(await case.ask(first, note="broken payload"), Guarantee.HALTED, S.HALTED)
    second = await case.ask(case.command(Phase.EXECUTE, 2))
    demand(second, Guarantee.HALTED, S.HALTED)
    third = case.command(Phase.EXECUTE, 3).model_copy(
        update={"recovery_operation_id": f"op-{case.name}"}
    )
    recovered = await case.settle(third)
    demand(recovered, Guarantee.HALTED, S.SUCCEEDED)
    case.bound(first, 1, 1, Guarantee.HALTED)


async def lenient(case: Case) -> None:
    """Send a member and a header that only a later release knows."""
    command = case.command(Phase.EXECUTE)
    row = case.row(command)
    body = json.loads(row.value or b"")
    # Before the payload, and as an object: readers must skip it whole.
    body = {"member_of_the_future": {"a": [1, None]}, **body}
    headers = (*row.headers, ("header-of-the-future", b"1"))
    value = json.dumps(body, ensure_ascii=False).encode()
    case.rows[command.command_id] = replace(row, headers=headers, value=value)
    answer = await case.ask(command, silence=Guarantee.LENIENT, note="with unknown members")
    demand(answer, Guarantee.LENIENT, S.SUCCEEDED, S.UNKNOWN)


async def traced(case: Case) -> None:
    """Begin a trace and find it in the answer."""
    trace = secrets.token_hex(16)
    command = case.command(Phase.EXECUTE)
    case.row(command, f"00-{trace}-{secrets.token_hex(8)}-01")
    await case.ask(command, note=f"in trace {trace}")
    for heard in case.box.heard:
        carried = heard.meta.traceparent if heard.meta else None
        if carried is None or carried.split("-")[1] != trace:
            raise Breach(Guarantee.TRACED, f"sent trace {trace}, got traceparent {carried}")


def _halts(profile: Profile) -> str | None:
    if profile.rejects_invalid_payload:
        return "the step rejects broken payloads: nothing here makes it halt"
    return None


CHECKS: Final = (
    Check("expired", expired, (Guarantee.EXPIRED,)),
    Check("bad-payload", bad_payload, (Guarantee.PAYLOAD,)),
    Check("halted", halted, (Guarantee.HALTED,), _halts),
    Check("lenient", lenient, (Guarantee.LENIENT,)),
    Check("traced", traced, (Guarantee.TRACED,)),
)
