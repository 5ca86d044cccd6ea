"""A listener with TLS and SASL for a test's broker: certificates and users made at run time."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sagabus_testkit.stack.kafka import SecureListener
from sagabus_testkit.stack.ports import LOOPBACK

__all__ = ["SECURE", "KafkaUser", "SecureBroker", "make_authority"]

SECURE: Final = "SECURE"
_PREFIX: Final = f"listener.name.{SECURE.lower()}"
_SECURITY: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class KafkaUser:
    """Somebody whom the broker knows by one SASL mechanism. No quotes in name or password."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    name: str
    password: str


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """The broker's side of the listener."""

    port: int
    listener: SecureListener
    keystore: Path
    users: tuple[KafkaUser, ...]

    @classmethod
    def prepare(cls, directory: Path, port: int, users: Sequence[KafkaUser]) -> Self:
        """Write an authority and the broker's certificate below `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        authority = make_authority()
        ca_file, keystore = directory / "ca.pem", directory / "broker.pem"
        ca_file.write_bytes(authority.certificate_pem)
        keystore.write_bytes(authority.issue("broker"))
        return cls(port, SecureListener(f"{LOOPBACK}:{port}", ca_file), keystore, tuple(users))

    def settings(self) -> dict[str, str]:
        """Return the broker's settings of the listener."""
        plain = "".join(
            f' user_{user.name}="{user.password}"'
            for user in self.users
            if user.mechanism == "PLAIN"
        )
        scram = f"{_SECURITY}.scram.ScramLoginModule required;"
        return {
            f"{_PREFIX}.ssl.keystore.type": "PEM",
            f"{_PREFIX}.ssl.keystore.location": str(self.keystore),
            f"{_PREFIX}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{_PREFIX}.plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required"
            f"{plain};",
            f"{_PREFIX}.scram-sha-256.sasl.jaas.config": scram,
            f"{_PREFIX}.scram-sha-512.sasl.jaas.config": scram,
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


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates for loopback that hold for a day."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """What clients check by."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> bytes:
        """Return a new key and its certificate chain as one PEM text."""
        key = ec.generate_private_key(ec.SECP256R1())
        place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK))])
        issued = _builder(name, self.certificate.subject, key).add_extension(place, critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        certificate = issued.sign(self.key, hashes.SHA256())
        return private + certificate.public_bytes(serialization.Encoding.PEM) + self.certificate_pem


def make_authority() -> Authority:
    """Return a new authority that nobody else knows."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = "sagabus test authority"
    builder = _builder(name, _name(name), key).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    return Authority(builder.sign(key, hashes.SHA256()), key)


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
