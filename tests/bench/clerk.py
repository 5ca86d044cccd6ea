"""The participant of the unit: three local steps, each with one small durable write.

Run as a service: `python -m tests.bench.clerk`, with the settings of any participant.
"""

from __future__ import annotations

import sys
from typing import Final

from pydantic import BaseModel

from sagabus_participant import (
    ExecutedLocally,
    Extras,
    LocalContext,
    LocalStep,
    Participant,
    ParticipantService,
    ParticipantSettings,
    Succeeded,
)
from sagabus_runtime.lifecycle import run_service

__all__ = ["NAME", "STEPS", "build"]

NAME: Final = "clerk"
STEPS: Final = ("reserve", "charge", "ship")

TABLE = (
    "create table if not exists entry"
    " (id uuid primary key, account text not null, cents bigint not null)"
)
INSERT = "insert into entry (id, account, cents) values ($1, $2, $3)"


class Order(BaseModel):
    """What each step is told."""

    account: str
    cents: int
    note: str


class WriteStep(LocalStep[Order]):
    """One small statement, and an answer."""

    async def execute(self, ctx: LocalContext, order: Order) -> ExecutedLocally:
        await ctx.conn.execute(INSERT, ctx.idempotency_key, order.account, order.cents)
        return Succeeded()

    async def compensate(self, ctx: LocalContext) -> Succeeded:
        await ctx.conn.execute("delete from entry where id = $1", ctx.execute_key)
        return Succeeded()


def build(settings: ParticipantSettings) -> ParticipantService:
    participant = Participant(NAME)
    for step in STEPS:
        participant.step(step, input=Order)(WriteStep)
    return ParticipantService(participant, settings, Extras())


if __name__ == "__main__":
    sys.exit(run_service(NAME, build, ParticipantSettings))
