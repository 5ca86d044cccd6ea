"""What a team may declare, and what a wrong declaration is told before anything starts."""

from typing import Any

import pytest
from pydantic import BaseModel

from sagabus_participant import (
    Executed,
    ExecutedLocally,
    ExternalContext,
    ExternalStep,
    LocalContext,
    LocalStep,
    Participant,
    RegistrationError,
    Resolved,
    StepOptions,
    Succeeded,
    Undone,
)


class Order(BaseModel):
    order: str


class Other(BaseModel):
    other: str


class Reserve(LocalStep[Order]):
    async def execute(self, ctx: LocalContext, order: Order) -> ExecutedLocally:
        return Succeeded()


class Undoable(Reserve):
    async def compensate(self, ctx: LocalContext) -> Undone:
        return Succeeded()


class Charge(ExternalStep[Order]):
    async def execute(self, ctx: ExternalContext, order: Order) -> Executed:
        return Succeeded()

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        return Succeeded()


class Blind(ExternalStep[Order]):
    async def execute(self, ctx: ExternalContext, order: Order) -> Executed:
        return Succeeded()


class NotAsync(LocalStep[Order]):
    def execute(  # type: ignore[override]  # the mistake
        self, ctx: LocalContext, order: Order
    ) -> ExecutedLocally:
        return Succeeded()


class Guessing(LocalStep[Order]):
    async def execute(  # type: ignore[override]  # the mistake: a local step is never in doubt
        self, ctx: LocalContext, order: Order
    ) -> Executed:
        return Succeeded()


class TooMany(LocalStep[Order]):
    async def execute(  # type: ignore[override]  # the mistake
        self, ctx: LocalContext, order: Order, more: int
    ) -> ExecutedLocally:
        return Succeeded()


class WrongInput(LocalStep[Other]):
    async def execute(self, ctx: LocalContext, order: Other) -> ExecutedLocally:
        return Succeeded()


def test_a_decorated_class_is_registered_with_its_rules() -> None:
    shop = Participant("shop")
    shop.step("reserve", input=Order)(Undoable)
    shop.step("confirm", input=Order, retriable=True)(Reserve)
    shop.add("charge", Order, Charge(), StepOptions(idempotent=True))
    reserve, confirm, charge = shop.steps
    assert (reserve.rules.local, reserve.rules.has_compensate) == (True, True)
    assert (confirm.rules.retriable, confirm.rules.has_compensate) == (True, False)
    assert (charge.rules.local, charge.rules.has_resolve, charge.rules.idempotent) == (
        False,
        True,
        True,
    )
    assert (reserve.input_schema, reserve.output_schema) == (
        "shop.reserve.v1",
        "shop.reserve.output.v1",
    )
    assert shop.find("nothing") is None


@pytest.mark.parametrize(
    ("handler", "options", "code", "word"),
    [
        (NotAsync(), StepOptions(), "wrong_signature", "async def"),
        (TooMany(), StepOptions(), "wrong_signature", "(self, ctx, order)"),
        (WrongInput(), StepOptions(), "wrong_signature", "Order"),
        (object(), StepOptions(), "wrong_handler_type", "LocalStep"),
        (Undoable(), StepOptions(retriable=True), "wrong_step_options", "retriable"),
        (Reserve(), StepOptions(idempotent=True), "wrong_step_options", "local"),
        (Blind(), StepOptions(), "wrong_step_options", "resolve"),
        (
            Reserve(),
            StepOptions(retriable=True, invalid_payload="reject"),
            "wrong_step_options",
            "payload",
        ),
    ],
)
def test_a_wrong_declaration_is_named(
    handler: Any, options: StepOptions, code: str, word: str
) -> None:
    with pytest.raises(RegistrationError) as caught:
        Participant("shop").add("step", Order, handler, options)
    assert caught.value.code == code
    assert word in caught.value.detail


def test_names_are_checked_and_taken_once() -> None:
    with pytest.raises(RegistrationError, match="invalid_name"):
        Participant("No Name")
    shop = Participant("shop")
    shop.step("reserve", input=Order)(Reserve)
    with pytest.raises(RegistrationError, match="step_registered_twice"):
        shop.step("reserve", input=Order)(Reserve)
    with pytest.raises(RegistrationError, match="wrong_input_type"):
        shop.add("other", dict, Reserve(), StepOptions())  # type: ignore[misc]  # the mistake


def test_a_mistake_is_a_type_error_before_it_is_a_start_up_error() -> None:
    """Strict mypy refuses an ignore that it does not need: `make types` proves these errors."""
    shop = Participant("shop")
    with pytest.raises(RegistrationError, match=r"WrongInput\.execute takes .*Other.*Order"):
        shop.add("other", Order, WrongInput(), StepOptions())  # type: ignore[misc]  # mistake
    with pytest.raises(RegistrationError, match="wrong_signature"):
        shop.step("other", input=Order)(WrongInput)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(RegistrationError, match=r"TooMany\.execute must take exactly"):
        shop.step("many", input=Order)(TooMany)
    assert Guessing is not None
