"""A participant that does its work twice now and then: chaos has to find out."""

from __future__ import annotations

import itertools
import sys
import uuid
from dataclasses import replace
from typing import Final

from sagabus_example_shipping.app import build
from sagabus_example_shipping.config import ShippingSettings
from sagabus_example_shipping.handlers import Ship, ShipStep
from sagabus_participant import Executed, ExternalContext
from sagabus_runtime.lifecycle import run_service

TWICE_EVERY: Final = 20
_numbers = itertools.count(1)
_execute = ShipStep.execute


async def _execute_twice(self: ShipStep, ctx: ExternalContext, order: Ship) -> Executed:
    if next(_numbers) % TWICE_EVERY == 0:
        await _execute(self, replace(ctx, idempotency_key=str(uuid.uuid4())), order)
    return await _execute(self, ctx, order)


if __name__ == "__main__":
    ShipStep.execute = _execute_twice  # type: ignore[method-assign]  # the defect itself
    sys.exit(run_service("shipping", build, ShippingSettings))
