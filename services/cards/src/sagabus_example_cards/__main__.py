"""Run the fake card processor: `python -m sagabus_example_cards`."""

from __future__ import annotations

import sys

from sagabus_example_cards.app import build
from sagabus_example_cards.config import CardsSettings
from sagabus_runtime.lifecycle import run_service

if __name__ == "__main__":
    sys.exit(run_service("cards", build, CardsSettings))
