"""Certificates for a test's servers and clients, made at run time."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sagabus_testkit.stack.ports import LOOPBACK

__all__ = ["DAY", "Authority", "make_authority"]

DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates for loopback."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """What clients check by."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, lives: timedelta = DAY) -> bytes:
        """Return a new key and its certificate chain as one PEM text; expired if `lives` < 0."""
        key = ec.generate_private_key(ec.SECP256R1())
        place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK))])
        issued = _builder(name, self.certificate.subject, key, lives).add_extension(
            place, critical=False
        )
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
    name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lives: timedelta = DAY
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + lives) - timedelta(minutes=5))
        .not_valid_after(now + lives)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
