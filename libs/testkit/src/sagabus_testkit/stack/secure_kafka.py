"""Listeners with TLS for a test's broker: certificates and users are made at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from sagabus_testkit.stack.authority import DAY, make_authority
from sagabus_testkit.stack.kafka import SecureListener
from sagabus_testkit.stack.ports import LOOPBACK

__all__ = ["MUTUAL", "SECURE", "KafkaUser", "SecureBroker"]

SECURE: Final = "SECURE"
MUTUAL: Final = "MUTUAL"
_PREFIX: Final = f"listener.name.{SECURE.lower()}"
_MUTUAL_PREFIX: Final = f"listener.name.{MUTUAL.lower()}"
_SECURITY: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class KafkaUser:
    """Somebody whom the broker knows by one SASL mechanism. No quotes in name or password."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    name: str
    password: str


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """The broker's side of the listeners: `port` takes passwords, `mutual_port` certificates."""

    port: int
    mutual_port: int
    listener: SecureListener
    keystore: Path
    users: tuple[KafkaUser, ...]

    @classmethod
    def prepare(cls, directory: Path, ports: tuple[int, int], users: Sequence[KafkaUser]) -> Self:
        """Write an authority and the certificates of broker and clients below `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        authority = make_authority()
        files = {
            "ca.pem": authority.certificate_pem,
            "broker.pem": authority.issue("broker"),
            "client.pem": authority.issue("client"),
            "expired.pem": authority.issue("client", lives=-DAY),
        }
        for name, text in files.items():
            (directory / name).write_bytes(text)
        listener = SecureListener(
            bootstrap=f"{LOOPBACK}:{ports[0]}",
            ca_file=directory / "ca.pem",
            mutual=f"{LOOPBACK}:{ports[1]}",
            client_file=directory / "client.pem",
            expired_file=directory / "expired.pem",
        )
        return cls(*ports, listener, directory / "broker.pem", tuple(users))

    def settings(self) -> dict[str, str]:
        """Return the broker's settings of the listeners."""
        plain = "".join(
            f' user_{user.name}="{user.password}"'
            for user in self.users
            if user.mechanism == "PLAIN"
        )
        scram = f"{_SECURITY}.scram.ScramLoginModule required;"
        return {
            **self._keystore(_PREFIX),
            f"{_PREFIX}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{_PREFIX}.plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required"
            f"{plain};",
            f"{_PREFIX}.scram-sha-256.sasl.jaas.config": scram,
            f"{_PREFIX}.scram-sha-512.sasl.jaas.config": scram,
            # Tokens are believed unsigned: whose signature counts is the broker's affair.
            f"{_PREFIX}.oauthbearer.sasl.jaas.config": f"{_SECURITY}.oauthbearer."
            'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
            **self._keystore(_MUTUAL_PREFIX),
            f"{_MUTUAL_PREFIX}.ssl.client.auth": "required",
            f"{_MUTUAL_PREFIX}.ssl.truststore.type": "PEM",
            f"{_MUTUAL_PREFIX}.ssl.truststore.location": str(self.listener.ca_file),
        }

    def _keystore(self, prefix: str) -> dict[str, str]:
        return {
            f"{prefix}.ssl.keystore.type": "PEM",
            f"{prefix}.ssl.keystore.location": str(self.keystore),
        }

    def format_arguments(self) -> tuple[str, ...]:
        """Return what the storage is formatted with: the users that it keeps itself."""
        return tuple(
            word
            for user in self.users
            if user.mechanism != "PLAIN"
            for word in (
                "--add-scram",
                f"{user.mechanism}=[name={user.name},password={user.password}]",
            )
        )
