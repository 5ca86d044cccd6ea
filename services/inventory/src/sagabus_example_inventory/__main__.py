"""Run the inventory participant: `python -m sagabus_example_inventory`."""

from __future__ import annotations

import sys

from sagabus_example_inventory.app import build
from sagabus_example_inventory.config import InventorySettings
from sagabus_runtime.lifecycle import run_service

if __name__ == "__main__":
    sys.exit(run_service("inventory", build, InventorySettings))
