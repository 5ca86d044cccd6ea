"""Run the shipping participant: `python -m sagabus_example_shipping`."""

from __future__ import annotations

import sys

from sagabus_example_shipping.app import build
from sagabus_example_shipping.config import ShippingSettings
from sagabus_runtime.lifecycle import run_service

if __name__ == "__main__":
    sys.exit(run_service("shipping", build, ShippingSettings))
