"""Run a replica of the orchestrator: `python -m sagabus_orchestrator`."""

import sys

from sagabus_orchestrator.app import build
from sagabus_orchestrator.config import OrchestratorSettings
from sagabus_runtime import run_service

if __name__ == "__main__":
    sys.exit(run_service("orchestrator", build, OrchestratorSettings))
