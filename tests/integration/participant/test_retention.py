"""What is forgotten, and what never is."""

from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel

from sagabus_core.vocabulary import Phase
from sagabus_participant import (
    Executed,
    ExternalContext,
    ExternalStep,
    Participant,
    Resolved,
    Retention,
    StepOptions,
    Succeeded,
    Unknown,
)
from sagabus_participant.retention import require_covers
from sagabus_runtime import SettingsError

E, C, K, R = Phase.EXECUTE, Phase.CANCEL, Phase.COMPENSATE, Phase.RESOLVE
Rig: TypeAlias = Any  # the class of conftest.py, which importlib mode cannot import


class Order(BaseModel):
    order: str


class Charge(ExternalStep[Order]):
    """Succeeds, except for orders in doubt."""

    async def execute(self, ctx: ExternalContext, order: Order) -> Executed:
        return Unknown() if order.order.startswith("doubt") else Succeeded()

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        return Unknown()

    async def compensate(self, ctx: ExternalContext) -> Succeeded:
        return Succeeded()


@pytest.fixture
async def rig(rig_of: Rig) -> Rig:
    participant = Participant("payment")
    participant.add("charge", Order, Charge(), StepOptions(idempotent=True))
    return await rig_of(participant, "charge")


async def age(rig: Rig, days: int) -> None:
    async with rig.db.transaction() as conn:
        await conn.execute(
            "update participant_effect set created_at = created_at - make_interval(days => $1),"
            " touched_at = touched_at - make_interval(days => $1)",
            days,
        )
        await conn.execute(
            "update participant_answer set answered_at = answered_at - make_interval(days => $1)",
            days,
        )


async def test_only_what_is_settled_and_old_is_forgotten(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagabus_participant.retention.PAGE", 2)
    for key in ("done-a", "done-b", "done-c", "undone", "doubt", "touched"):
        await rig.send(rig.command(E, key=key))
    await rig.work()
    await rig.send(rig.command(K, key="undone"))
    await rig.work()
    await rig.send(rig.command(R, target=E, key="fenced"))
    await rig.work()
    await age(rig, 50)
    await rig.send(rig.command(E, 2, key="touched"), rig.command(E, key="queued"))
    async with rig.db.transaction() as conn:
        await conn.execute("update participant_effect set created_at = now() - interval '50 days'")
    assert await Retention(60).round(rig.db) == 0
    forgetting = Retention(40)
    assert await forgetting.round(rig.db) == 5
    assert await forgetting.round(rig.db) == 0
    async with rig.db.connection() as conn:
        left = await conn.fetch("select saga_id::text from participant_effect")
    keys = {key: rig.command(E, key=key).key.decode() for key in ("doubt", "touched", "queued")}
    assert sorted(row["saga_id"] for row in left) == sorted(keys.values())
    assert await rig.count("participant_answer") == 1, "the answer that a callback will follow"


def test_the_journal_outlives_the_inbox() -> None:
    require_covers(31, 30)
    with pytest.raises(SettingsError, match="journal_too_short"):
        require_covers(30, 30)
