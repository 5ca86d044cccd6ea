"""Which exporter of spans the OTEL_* variables ask for.

https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from opentelemetry.sdk.trace.export import SpanExporter

from sagabus_runtime.errors import SettingsError

__all__ = ["exporter", "is_wanted"]

_PACKAGE: Final = "opentelemetry-exporter-otlp-proto-"
_EXPORTERS: Final = {
    "http/protobuf": ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "http"),
    "grpc": ("opentelemetry.exporter.otlp.proto.grpc.trace_exporter", "grpc"),
}
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def is_wanted(variables: Mapping[str, str]) -> bool:
    """Say whether spans are to be exported. Raises `SettingsError` (`exporter_unknown`)."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    named = variables.get("OTEL_TRACES_EXPORTER", "").strip()
    if named not in {"", "none", "otlp"}:
        raise SettingsError(
            "exporter_unknown", f"OTEL_TRACES_EXPORTER is {named!r}: set otlp or none"
        )
    return named == "otlp" or (not named and any(variables.get(name) for name in _ENDPOINTS))


def exporter(variables: Mapping[str, str]) -> SpanExporter:
    """Return the exporter. Raises `SettingsError`: `exporter_unknown`, `exporter_missing`."""
    protocol = next((variables[name] for name in _PROTOCOLS if variables.get(name)), "")
    try:
        name, suffix = _EXPORTERS[protocol or "http/protobuf"]
    except KeyError as cause:
        raise SettingsError(
            "exporter_unknown", f"{_PROTOCOLS[1]} is {protocol!r}: set http/protobuf or grpc"
        ) from cause
    try:
        module = import_module(name)
    except ImportError as cause:
        raise SettingsError(
            "exporter_missing",
            "the OTEL_* variables ask for OTLP but the exporter is not installed:"
            f" pip install {_PACKAGE}{suffix}",
        ) from cause
    found: SpanExporter = module.OTLPSpanExporter()  # reads the same variables
    return found
