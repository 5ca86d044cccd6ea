"""Forged and confused results: a stable reason, no claim, and the truth still counts."""

from collections.abc import Callable

import pytest

from sagabus_core import ids
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import Command, OutboxRow, Record

from .support import TOPICS, Rig, commands

Forge = Callable[[Rig, Command], Record]
OTHER = "00000000-0000-5000-8000-000000000000"


def effect(command: Command, **changes: object) -> dict[str, object]:
    """Return changed fields with ids that derive from them: only the saga can tell."""
    told = {name: changes.get(name, getattr(command, name)) for name in FIELDS}
    effect_id = ids.effect_id(*told.values())  # type: ignore[arg-type]  # fields in their order
    attempt = changes.get("attempt", command.attempt)
    command_id = ids.command_id(effect_id, attempt)  # type: ignore[arg-type]  # an int
    return {**changes, "effect_id": effect_id, "command_id": command_id}


FIELDS = ("saga_id", "definition_version", "activation", "phase", "target")


def changed(**changes: object) -> Forge:
    def forge(rig: Rig, command: Command) -> Record:
        fields = effect(command, **changes)
        forged = command.model_copy(update=fields)
        return rig.result_record(forged, ResultStatus.SUCCEEDED, participant="inventory")

    return forge


def misplaced(rig: Rig, command: Command) -> Record:
    """The right answer on the topic of somebody else, who says so."""
    return rig.result_record(command, participant="payment")


def disguised(rig: Rig, command: Command) -> Record:
    """The right source on the wrong topic."""
    record = rig.result_record(command)
    return rig.record(OutboxRow(TOPICS.result("payment"), record.key, record.headers, record.value))


def rekeyed(rig: Rig, command: Command) -> Record:
    record = rig.result_record(command)
    return rig.record(OutboxRow(record.topic, OTHER.encode(), record.headers, record.value))


def garbled(rig: Rig, command: Command) -> Record:
    record = rig.result_record(command)
    return rig.record(OutboxRow(record.topic, record.key, record.headers, b'{"a":1,"a":2}'))


def aged(rig: Rig, command: Command) -> Record:
    return rig.result_record(command, at_ms=rig.now_ms() - 31 * 86_400_000)


def early(rig: Rig, command: Command) -> Record:
    return rig.result_record(command, at_ms=rig.now_ms() + 11 * 60_000)


FORGERIES: dict[str, tuple[Forge, str]] = {
    "another participant's topic": (misplaced, "producer_mismatch"),
    "another participant's name": (disguised, "producer_mismatch"),
    "another key": (rekeyed, "header_body_mismatch"),
    "another body": (garbled, "duplicate_key"),
    "another effect": (
        lambda rig, command: rig.result_record(command, effect_id=OTHER),
        "identity_mismatch",
    ),
    "another command": (
        lambda rig, command: rig.result_record(command, command_id=OTHER),
        "identity_mismatch",
    ),
    "another tenant": (
        lambda rig, command: rig.result_record(command, tenant="evil"),
        "identity_mismatch",
    ),
    "another version": (changed(definition_version=2), "definition_mismatch"),
    "another digest": (changed(definition_digest="0" * 64), "definition_mismatch"),
    "another activation": (changed(activation="nothing"), "unknown_activation"),
    "another step": (changed(step="confirm"), "unknown_activation"),
    "a later attempt": (changed(attempt=2), "attempt_never_issued"),
    "another phase": (changed(phase=Phase.COMPENSATE), "attempt_never_issued"),
    "a later step": (changed(activation="confirm", step="confirm"), "attempt_never_issued"),
    "too old": (aged, "too_old"),
    "too early": (early, "too_new"),
}


@pytest.mark.parametrize(("forge", "reason"), FORGERIES.values(), ids=FORGERIES)
async def test_a_forgery_is_dead_lettered_and_the_truth_still_counts(
    rig: Rig, forge: Forge, reason: str
) -> None:
    (command,) = commands(await rig.process(rig.start_record()))
    claims = await rig.count("inbox")
    forged = forge(rig, command)

    assert await rig.process(forged) == []
    assert await rig.dead_letters() == [reason]
    assert await rig.count("inbox") == claims

    sent = await rig.process(forged, rig.result_record(command), forged)
    assert [c.step for c in commands(sent)] == ["charge"]
    assert await rig.dead_letters() == [reason] * 3


async def test_a_result_of_a_saga_that_nobody_knows(rig: Rig) -> None:
    (command,) = commands(await rig.process(rig.start_record()))
    await rig.run("delete from saga")
    assert await rig.process(rig.result_record(command)) == []
    assert await rig.dead_letters() == ["unknown_saga"]


async def test_a_start_that_lies_about_its_key_claims_nothing(rig: Rig) -> None:
    record = rig.start_record()
    lie = rig.record(OutboxRow(record.topic, OTHER.encode(), record.headers, record.value))
    assert await rig.process(lie) == []
    assert await rig.count("inbox") == 0
    assert len(commands(await rig.process(record))) == 1
