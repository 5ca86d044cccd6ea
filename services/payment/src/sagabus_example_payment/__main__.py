"""Run the payment participant: `python -m sagabus_example_payment`."""

from __future__ import annotations

import sys

from sagabus_example_payment.app import build
from sagabus_example_payment.config import PaymentSettings
from sagabus_runtime.lifecycle import run_service

if __name__ == "__main__":
    sys.exit(run_service("payment", build, PaymentSettings))
