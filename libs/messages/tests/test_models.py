"""Construction inside: the same rules as on the wire, and frozen values."""

import pytest
from pydantic import ValidationError

from sagabus_core.payload import Payload
from sagabus_core.vocabulary import ALLOWED_RESULTS, Phase, ResultStatus, TerminalStatus
from sagabus_messages import (
    Command,
    Kind,
    Lifecycle,
    MessageError,
    Result,
    Start,
    Wakeup,
    WakeupRequest,
)
from sagabus_messages.models import WireModel

ID = "3403baf0-fb07-5d8c-98da-1fa0754f153c"
ADDRESS = {
    "saga_id": ID,
    "tenant": "t",
    "workflow": "w",
    "business_key": "k",
    "definition_version": 1,
    "definition_digest": "0" * 64,
    "step": "s",
    "activation": "a.b",
    "attempt": 1,
    "effect_id": ID,
    "command_id": ID,
}


def result(**more: object) -> Result:
    return Result.model_validate({**ADDRESS, "event_id": ID, "occurred_at_ms": 0, **more})


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("status", ResultStatus)
@pytest.mark.parametrize("terminal", [None, *TerminalStatus])
@pytest.mark.parametrize("target", [None, *Phase])
def test_all_combinations_of_a_result(
    phase: Phase, status: ResultStatus, terminal: TerminalStatus | None, target: Phase | None
) -> None:
    allowed = (
        status in ALLOWED_RESULTS[phase]
        and (terminal is not None) == (status is ResultStatus.ALREADY_TERMINAL)
        and (target is not None) == (phase is Phase.RESOLVE)
        and target not in {Phase.CANCEL, Phase.RESOLVE}
    )
    try:
        made = result(phase=phase, status=status, terminal_status=terminal, target=target)
    except (MessageError, ValidationError):
        assert not allowed
    else:
        assert allowed
        assert Result.from_wire(dict(made.to_wire())) == made


def test_messages_are_frozen() -> None:
    start = Start(tenant="t", workflow="w", business_key="k")
    with pytest.raises(ValidationError):
        start.tenant = "u"  # type: ignore[misc]  # the point of the test


def test_instants_are_integers_inside_and_text_outside() -> None:
    wakeup = Wakeup(saga_id=ID, generation=1, at_ms=0, fired_at_ms=1)
    assert wakeup.to_wire()["fired_at"] == "1970-01-01T00:00:00.001Z"
    with pytest.raises(MessageError):
        Wakeup.from_wire({"saga_id": ID, "generation": 1, "at": 0, "fired_at": 1})
    with pytest.raises(MessageError) as refusal:
        Wakeup.from_wire({"saga_id": ID, "generation": 1, "at_ms": 0, "fired_at_ms": 1})
    assert refusal.value.code == "missing_field", "names of the inside mean nothing outside"


def test_a_disarm_says_null() -> None:
    request = WakeupRequest(saga_id=ID, generation=2, at_ms=None)
    assert request.to_wire() == {"at": None, "saga_id": ID, "generation": 2}


def test_unknown_members_are_ignored_and_not_carried() -> None:
    body = {"tenant": "t", "workflow": "w", "business_key": "k", "colour": "green"}
    assert "colour" not in Start.from_wire(body).to_wire()


def test_the_payload_stands_last() -> None:
    made = Lifecycle(
        saga_id=ID,
        tenant="t",
        workflow="w",
        business_key="k",
        status="START_REFUSED",
        start_id="s",
        reason_code="request_conflict",
        occurred_at_ms=0,
    )
    assert "output" not in made.to_wire()
    command = Command.model_validate(
        {**ADDRESS, "phase": "EXECUTE", "expires_at_ms": 0, "payload": Payload("a/b", "s", b"")}
    )
    assert list(command.to_wire())[-1] == "payload"


def test_every_kind_has_one_model() -> None:
    models: list[type[WireModel]] = [Start, Command, Result, WakeupRequest, Wakeup, Lifecycle]
    assert [model.kind for model in models] == list(Kind)


@pytest.mark.parametrize("value", [True, 1.0, "1", 0, 2**31])
def test_counters_are_integers(value: object) -> None:
    with pytest.raises(ValidationError):
        Start.model_validate(
            {"tenant": "t", "workflow": "w", "business_key": "k", "definition_version": value}
        )
