"""Prometheus metrics: one registry per service, made by `build`, never the global one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

__all__ = ["new_registry"]


def new_registry() -> CollectorRegistry:
    """Return a registry that holds the metrics of the process itself.

    Pass it as `registry=` to every metric: two services in one test process do not collide.
    """
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
