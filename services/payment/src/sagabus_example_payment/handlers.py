"""Charge a card at an outside processor: no transaction covers that, so the step is external.

The SDK makes the intent durable before `execute` calls the processor, and the receipt after it.
The idempotency key is the same for every attempt, and the processor honours it: the step is
declared idempotent, so after a crash in between the SDK may call again.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveInt

from sagabus_core.vocabulary import Phase
from sagabus_example_payment.processor import CardProcessor, Charge, LostAnswer
from sagabus_participant import (
    Compensated,
    Executed,
    ExternalContext,
    ExternalStep,
    Participant,
    Rejected,
    Resolved,
    StepOptions,
    Succeeded,
    Unknown,
)

__all__ = ["ChargeCard", "ChargeCardStep", "payment_with"]


class ChargeCard(BaseModel):
    """Which order takes how much from which card."""

    model_config = ConfigDict(frozen=True)

    order: str
    card: str
    amount_cents: PositiveInt


class Charged(BaseModel):
    """What `charge-card` answers."""

    charge_id: str


class ChargeCardStep(ExternalStep[ChargeCard]):
    """Charges a card; undone by a refund. Cannot be cancelled, only asked about."""

    def __init__(self, cards: CardProcessor) -> None:
        self._cards = cards

    async def execute(self, ctx: ExternalContext, order: ChargeCard) -> Executed:
        """Charge under the idempotency key; a lost answer is UNKNOWN, never a guess."""
        try:
            charge = await self._cards.charge(
                ctx.idempotency_key, order.order, order.card, order.amount_cents
            )
        except LostAnswer as lost:
            return Unknown(lost.code, lost.detail)
        return _answered(charge)

    async def compensate(self, ctx: ExternalContext) -> Compensated:
        """Refund what the recorded success charged."""
        try:
            await self._cards.refund(ctx.idempotency_key, ctx.execute_key)
        except LostAnswer as lost:
            return Unknown(lost.code, lost.detail)
        return Succeeded()

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        """Ask the processor what became of the key.

        About a charge: a key that the processor never saw is forbidden first, so that a request
        which is still on its way cannot charge after the answer was REJECTED.
        """
        try:
            if ctx.target is Phase.COMPENSATE:
                refunded = await self._cards.was_refunded(ctx.idempotency_key)
                return Succeeded() if refunded else Rejected("not_refunded")
            return _answered(await self._cards.settle(ctx.idempotency_key))
        except LostAnswer as lost:
            return Unknown(lost.code, lost.detail)


def _answered(charge: Charge) -> Executed:
    match charge:
        case Charge(status="charged", charge_id=str(charge_id)):
            return Succeeded(Charged(charge_id=charge_id))
        case Charge(status="declined"):
            return Rejected("card_declined", "the bank said no")
        case Charge(status="forbidden"):
            return Rejected("never_charged", "the processor will never charge this key")
        case _:
            return Unknown("card_answer_strange", "charged without a charge id")


def payment_with(cards: CardProcessor) -> Participant:
    """Return the participant; its handler needs a client, so it is registered as an object."""
    payment = Participant("payment")
    options = StepOptions(output=Charged, idempotent=True, timeout_ms=30_000)
    payment.add("charge-card", ChargeCard, ChargeCardStep(cards), options)
    return payment
