"""An OTLP/HTTP collector on loopback that keeps what it is sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan


@dataclass(frozen=True)
class Told:
    """A span as it came."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    links: frozenset[str]
    attributes: dict[str, str]


@dataclass
class Collector:
    """Spans by arrival; `endpoint` is what OTEL_EXPORTER_OTLP_ENDPOINT names."""

    endpoint: str = ""
    spans: list[Told] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_told(names["service.name"], span) for span in scope.spans]

    def holds(self, text: str) -> bool:
        """Say whether any span that came has this text anywhere."""
        return any(text.encode() in body for body in self.bodies)

    def of(self, trace: str) -> list[Told]:
        return [span for span in self.spans if span.trace == trace]


def _told(service: str, span: WireSpan) -> Told:
    return Told(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        frozenset(link.span_id.hex() for link in span.links),
        {a.key: a.value.string_value or str(a.value.int_value) for a in span.attributes},
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """Listen on a free port while the block runs."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
