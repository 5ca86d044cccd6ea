"""The example of the README: a participant team's saga test is short and takes milliseconds."""

import ast
import re
from pathlib import Path

from pydantic import BaseModel

from sagabus_participant import LocalContext, LocalStep, Participant, Rejected, Succeeded
from sagabus_testkit.memory import KitMaker
from sagabus_testkit.orders import DEFINITION

README = Path(__file__).parents[1] / "README.md"
ORDER = {
    "order": "ORD-1",
    "sku": "widget-1",
    "quantity": 2,
    "card": "visa-1",
    "amount_cents": 1200,
    "address": "1 Main Street",
}

# begin of what a team has anyway: its participant
inventory = Participant("inventory")


class ReserveStock(BaseModel):
    order: str
    sku: str
    quantity: int


class Sale(BaseModel):
    order: str
    reservation_id: str


@inventory.step("reserve-stock", input=ReserveStock)
class ReserveStockStep(LocalStep[ReserveStock]):
    async def execute(self, ctx: LocalContext, order: ReserveStock) -> Succeeded | Rejected:
        stock: FakeStock = ctx.conn  # type: ignore[assignment]  # the test's fake
        stock.left -= order.quantity
        if stock.left < 0:
            return Rejected("out_of_stock")
        return Succeeded({"reservation_id": ctx.idempotency_key})

    async def compensate(self, ctx: LocalContext) -> Succeeded:
        stock: FakeStock = ctx.conn  # type: ignore[assignment]  # the test's fake
        stock.left += 2
        return Succeeded()


@inventory.step("confirm", input=Sale, retriable=True)
class ConfirmStep(LocalStep[Sale]):
    async def execute(self, ctx: LocalContext, sale: Sale) -> Succeeded:
        return Succeeded()


class FakeStock:
    left = 10


async def test_a_declined_card_puts_the_stock_back(saga_kit: KitMaker) -> None:
    stock = FakeStock()
    kit = saga_kit(DEFINITION, inventory, conn=stock)
    kit.stub("charge-card", Rejected("card_declined"))
    kit.stub("ship")
    kit.on("reserve-stock").lose_answer()

    saga = await kit.run(ORDER)

    saga.expect("COMPENSATED", done=["reserve-stock"], undone=["reserve-stock"])
    assert stock.left == 10


def test_the_example_is_that_of_the_readme_and_under_15_lines() -> None:
    name = "test_a_declined_card_puts_the_stock_back"
    source = Path(__file__).read_text()
    (node,) = [n for n in ast.parse(source).body if getattr(n, "name", None) == name]
    text = ast.get_source_segment(source, node)
    assert text is not None
    assert len(text.splitlines()) < 15
    assert text in "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))


async def test_what_a_refusing_handler_changed_is_put_back(saga_kit: KitMaker) -> None:
    stock = FakeStock()
    kit = saga_kit(DEFINITION, inventory, conn=stock)
    kit.stub("charge-card")
    kit.stub("ship")

    saga = await kit.run({**ORDER, "quantity": 11})

    saga.expect("COMPENSATED", done=[], undone=[], reason="step_rejected")
    assert stock.left == 10
