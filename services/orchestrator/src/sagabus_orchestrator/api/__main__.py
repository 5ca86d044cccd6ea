"""`python -m sagabus_orchestrator.api`."""

import sys

from sagabus_orchestrator.api.app import build
from sagabus_orchestrator.api.config import ApiSettings
from sagabus_runtime import run_service

if __name__ == "__main__":
    sys.exit(run_service("sagabus-api", build, ApiSettings))
