"""Is this deployment as it must be? Facts from the databases and Kafka, judged one by one."""

from sagabus_orchestrator.doctor.broker import examine_broker
from sagabus_orchestrator.doctor.checks import Check, Level, worst
from sagabus_orchestrator.doctor.databases import examine_database, examine_outbox

__all__ = ["Check", "Level", "examine_broker", "examine_database", "examine_outbox", "worst"]
