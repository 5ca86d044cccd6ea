"""How a service reaches Kafka and proves who it is; see the README of this package."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, FilePath, SecretStr, ValidationInfo, field_validator

from sagabus_runtime.settings import ServiceSettings

__all__ = ["BootstrapServers", "KafkaProtocol", "KafkaSecuritySettings", "KafkaSettings"]

KafkaProtocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]


def _check_bootstrap(value: str) -> str:
    for server in value.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdigit():
            raise ValueError("must be a comma-separated list of host:port")
    return value


BootstrapServers = Annotated[str, AfterValidator(_check_bootstrap)]


_PASSWORD: Final = frozenset({"kafka_username", "kafka_password"})
_TOKEN: Final = frozenset({"kafka_token_file"})


class KafkaSecuritySettings(ServiceSettings):
    """TLS and SASL of every Kafka client of a process."""

    kafka_ca_file: FilePath | None = None
    """PEM file with the authorities that sign brokers' certificates; without it, the system's."""
    kafka_cert_file: FilePath | None = None
    """PEM file with the certificate chain of this client, where brokers ask for one."""
    kafka_key_file: FilePath | None = None
    """PEM file with the key of that certificate, if it is not in the same file."""
    kafka_key_password: SecretStr | None = None
    """Password of that key, if it has one."""
    kafka_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = (
        "SCRAM-SHA-512"
    )
    """SASL mechanism. PLAIN and OAUTHBEARER show the secret to the broker: over TLS only."""
    kafka_username: str | None = None
    """SASL user."""
    kafka_password: SecretStr | None = None
    """SASL password."""
    kafka_token_file: FilePath | None = None
    """File with the bearer token of OAUTHBEARER, which somebody else keeps fresh: a sidecar, a
    projected volume of Kubernetes. Read anew for each connection."""
    kafka_protocol: KafkaProtocol = "plaintext"
    """`sasl_ssl` or `ssl` where the network is not yours; the brokers' listener decides."""

    @field_validator("kafka_protocol")
    @classmethod
    def _check_fits(cls, protocol: str, info: ValidationInfo) -> str:
        """Refuse what would silently not be used, and what would surely be refused later."""
        told = info.data
        tls = {"kafka_ca_file", "kafka_cert_file", "kafka_key_file", "kafka_key_password"}
        given = {name for name, value in told.items() if value is not None}
        needed: frozenset[str] = frozenset()
        if protocol.startswith("sasl"):
            needed = _TOKEN if told.get("kafka_mechanism") == "OAUTHBEARER" else _PASSWORD
        useless = ((_PASSWORD | _TOKEN) - needed) | (set() if protocol.endswith("ssl") else tls)
        if lacking := needed - given:
            raise ValueError(f"{protocol} takes {_variables(lacking)}")
        if unused := useless & given:
            raise ValueError(f"{protocol} makes no use of {_variables(unused)}")
        if given & {"kafka_key_file", "kafka_key_password"} and "kafka_cert_file" not in given:
            raise ValueError("a key takes its certificate: SAGABUS_KAFKA_CERT_FILE")
        return protocol


class KafkaSettings(KafkaSecuritySettings):
    """Settings of a service that talks to Kafka."""

    kafka: BootstrapServers
    """Bootstrap servers of Kafka, for example 127.0.0.1:9092."""
    topic_prefix: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9-]{0,30}\.)?$")
    """Prefix of every topic of this environment, ending in a dot, for example `staging.`."""


def _variables(names: Collection[str]) -> str:
    return ", ".join(f"SAGABUS_{name.upper()}" for name in sorted(names))
