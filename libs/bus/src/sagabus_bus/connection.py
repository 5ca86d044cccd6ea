"""How this process reaches Kafka: one value that every client of the package is built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sagabus_bus.security import PLAINTEXT, KafkaSecurity

if TYPE_CHECKING:
    from sagabus_runtime import KafkaSettings

from sagabus_bus.driver import prepare_driver

__all__ = ["KafkaConnection"]

METADATA_MAX_AGE_MS = 30_000
RETRY_BACK_OFF_MS = 50


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Bootstrap servers, the name that brokers log for this client, and the request deadline."""

    bootstrap: str
    client_id: str
    request_timeout_ms: int = 10_000
    security: KafkaSecurity = PLAINTEXT

    @classmethod
    def of(cls, settings: KafkaSettings, client_id: str) -> KafkaConnection:
        """Return the connection that the settings of a service describe."""
        return cls(settings.kafka, client_id, security=KafkaSecurity.of(settings))

    @property
    def servers(self) -> list[str]:
        """The bootstrap servers one by one, as host:port."""
        return [server.strip() for server in self.bootstrap.split(",")]

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments that every aiokafka client shares.

        Raises `BusMisconfigured` for certificates that do not load.
        """
        prepare_driver()
        return {
            **self.security.options(),
            "bootstrap_servers": self.servers,
            "client_id": self.client_id,
            "request_timeout_ms": self.request_timeout_ms,
            # The driver's five minutes would hide a moved leader or a new topic for as long.
            "metadata_max_age_ms": METADATA_MAX_AGE_MS,
            "retry_backoff_ms": RETRY_BACK_OFF_MS,
        }
