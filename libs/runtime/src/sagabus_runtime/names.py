"""Every name that leaves the process through logs, metrics and traces, in one place.

Dashboards, alerts and tests rely on these: a name is never reused for another meaning.
"""

from __future__ import annotations

from typing import Final

# Fields of log lines and attributes of spans.
FIELD_SAGA_ID: Final = "saga_id"
FIELD_TRACE_ID: Final = "trace_id"
FIELD_SERVICE: Final = "service"
FIELD_LOOP: Final = "loop"
FIELD_REASON: Final = "reason"
FIELD_DELAY_MS: Final = "delay_ms"
FIELD_REQUEST_ID: Final = "request_id"
FIELD_ACTOR: Final = "actor"

# Attributes of spans that OpenTelemetry has named:
# https://opentelemetry.io/docs/specs/semconv/http/http-spans/
FIELD_ERROR_TYPE: Final = "error.type"
FIELD_HTTP_METHOD: Final = "http.request.method"
FIELD_HTTP_ROUTE: Final = "http.route"
FIELD_HTTP_STATUS: Final = "http.response.status_code"
FIELD_HTTP_RESENT: Final = "http.request.resend_count"
FIELD_URL_TEMPLATE: Final = "url.template"
FIELD_SERVER_ADDRESS: Final = "server.address"
FIELD_SERVER_PORT: Final = "server.port"

# Spans that more than one package begins.
SPAN_START: Final = "saga.start"

# Log events of the runtime.
EVENT_STARTING: Final = "service.starting"
EVENT_START_FAILED: Final = "service.start_failed"
EVENT_READY: Final = "service.ready"
EVENT_STOPPING: Final = "service.stopping"
EVENT_STOPPED: Final = "service.stopped"
EVENT_STOP_FORCED: Final = "service.stop_forced"
EVENT_STOP_FAILED: Final = "service.stop_failed"
EVENT_CRASHED: Final = "service.crashed"
EVENT_HEALTH_LISTENING: Final = "health.listening"
EVENT_HEALTH_CHECK_BROKEN: Final = "health.check_broken"
EVENT_LOOP_RESTARTING: Final = "loop.restarting"
EVENT_FAILPOINTS_ARMED: Final = "failpoints.armed"

# Metrics of the runtime.
METRIC_LOOP_RESTARTS: Final = "sagabus_loop_restarts"
METRIC_LOOP_BEAT_AGE: Final = "sagabus_loop_beat_age_seconds"
METRIC_READY: Final = "sagabus_ready"

__all__ = [name for name in list(globals()) if name.isupper()]
