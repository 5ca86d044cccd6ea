"""How this process reaches Kafka: one value that every client of the package is built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from sagabus_bus.driver import prepare_driver

__all__ = ["KafkaConnection", "NamesKafka"]

METADATA_MAX_AGE_MS = 30_000
RETRY_BACK_OFF_MS = 50


class NamesKafka(Protocol):
    """The part of `sagabus_runtime.KafkaSettings` that says where Kafka is."""

    @property
    def kafka(self) -> str:
        """Bootstrap servers, `host:port,host:port`."""


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Bootstrap servers, the name that brokers log for this client, and the request deadline."""

    bootstrap: str
    client_id: str
    request_timeout_ms: int = 10_000

    @classmethod
    def of(cls, settings: NamesKafka, client_id: str) -> KafkaConnection:
        """Return the connection that the settings of a service describe."""
        return cls(bootstrap=settings.kafka, client_id=client_id)

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments that every aiokafka client shares."""
        prepare_driver()
        return {
            "bootstrap_servers": [server.strip() for server in self.bootstrap.split(",")],
            "client_id": self.client_id,
            "request_timeout_ms": self.request_timeout_ms,
            # The driver's five minutes would hide a moved leader or a new topic for as long.
            "metadata_max_age_ms": METADATA_MAX_AGE_MS,
            "retry_backoff_ms": RETRY_BACK_OFF_MS,
        }
