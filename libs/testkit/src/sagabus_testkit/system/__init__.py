"""The whole system as real processes: what demo, acceptance tests, benchmarks and chaos run."""

from sagabus_testkit.system.services import API, PARTICIPANTS, SERVICES, ServiceKind
from sagabus_testkit.system.system import Servers, System

__all__ = ["API", "PARTICIPANTS", "SERVICES", "Servers", "ServiceKind", "System"]
