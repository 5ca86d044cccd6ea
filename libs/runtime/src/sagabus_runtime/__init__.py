"""Settings, structured logs, telemetry, health, lifecycle and failpoints of sagabus services."""

from sagabus_runtime.backoff import BackOff, BackOffPolicy
from sagabus_runtime.errors import InjectedFault, LoopFault, RuntimeProblem, SettingsError
from sagabus_runtime.health import Health, HealthServer, Pulse
from sagabus_runtime.kafka_settings import KafkaSecuritySettings, KafkaSettings
from sagabus_runtime.lifecycle import ExitCode, Loop, Service, run_service, serve
from sagabus_runtime.logs import bound, get_logger
from sagabus_runtime.metrics import BoundedLabel, LatencyHistogram, new_registry
from sagabus_runtime.settings import PostgresSettings, ServiceSettings, load
from sagabus_runtime.telemetry import TraceParent, Tracing, format_traceparent, parse_traceparent

__all__ = [
    "BackOff",
    "BackOffPolicy",
    "BoundedLabel",
    "ExitCode",
    "Health",
    "HealthServer",
    "InjectedFault",
    "KafkaSecuritySettings",
    "KafkaSettings",
    "LatencyHistogram",
    "Loop",
    "LoopFault",
    "PostgresSettings",
    "Pulse",
    "RuntimeProblem",
    "Service",
    "ServiceSettings",
    "SettingsError",
    "TraceParent",
    "Tracing",
    "bound",
    "format_traceparent",
    "get_logger",
    "load",
    "new_registry",
    "parse_traceparent",
    "run_service",
    "serve",
]
