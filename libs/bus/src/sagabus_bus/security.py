"""TLS and SASL of every client: what the driver is told, and why a broker turned us away."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import create_conn
from aiokafka.errors import AuthenticationFailedError, KafkaError
from cryptography import x509

from sagabus_bus.errors import BusError, BusMisconfigured, BusUnavailable, translate, translated

if TYPE_CHECKING:
    from sagabus_bus.connection import KafkaConnection
    from sagabus_runtime import KafkaSecuritySettings

__all__ = ["PLAINTEXT", "KafkaSecurity", "Mechanism", "opening"]

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

ALERT_WAIT_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class KafkaSecurity:
    """How clients reach the brokers' listener. Files are read anew by each client that opens."""

    protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    mechanism: Mechanism = "SCRAM-SHA-512"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token_file: Path | None = None

    @classmethod
    def of(cls, settings: KafkaSecuritySettings) -> KafkaSecurity:
        """Return what the settings of a service say."""
        key, password = settings.kafka_key_password, settings.kafka_password
        return cls(
            protocol=settings.kafka_protocol,
            ca_file=settings.kafka_ca_file,
            cert_file=settings.kafka_cert_file,
            key_file=settings.kafka_key_file,
            key_password=None if key is None else key.get_secret_value(),
            mechanism=settings.kafka_mechanism,
            username=settings.kafka_username,
            password=None if password is None else password.get_secret_value(),
            token_file=settings.kafka_token_file,
        )

    def options(self) -> dict[str, Any]:
        """Return the driver's arguments. Raises `BusMisconfigured` for files that do not load."""
        found: dict[str, Any] = {"security_protocol": self.protocol.upper()}
        if self.protocol.endswith("ssl"):
            found["ssl_context"] = self._context()
        if self.protocol.startswith("sasl"):
            found |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        if self.token_file is not None:
            found["sasl_oauth_token_provider"] = _TokenFile(self.token_file)
        return found

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                # The empty password keeps the driver from asking for one on the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, self.key_password or "")
        except (OSError, ValueError) as error:
            raise BusMisconfigured(
                "bus_misconfigured",
                "SAGABUS_KAFKA_CA_FILE, _CERT_FILE or _KEY_FILE does not load, or the key's "
                f"password is wrong: {type(error).__name__}",
            ) from error
        return context


class _TokenFile(AbstractTokenProvider):
    """The token that a file holds when a connection is made: it is kept fresh by somebody else."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    async def token(self) -> str:
        try:
            token = self._file.read_text("ascii").strip()
        except (OSError, ValueError):
            token = ""
        if not token.isprintable() or not token or " " in token:
            # An error of the driver's own: its background tasks end on any other.
            raise AuthenticationFailedError(
                f"SAGABUS_KAFKA_TOKEN_FILE {self._file} holds no token: one line of ASCII"
            )
        return token


PLAINTEXT: Final = KafkaSecurity()


@asynccontextmanager
async def opening(connection: KafkaConnection, doing: str) -> AsyncIterator[None]:
    """Do what `translated` does, for a block that opens a client, and tell a refusal apart.

    The driver reports a broker that turned down our credentials, or whose certificate we do not
    trust, as one that it could not reach: then one connection is made to learn the reason.
    """
    try:
        with translated(doing):
            yield
    except BusUnavailable as error:
        refusal = await _refusal(connection, doing)
        if refusal is None:
            raise
        raise refusal from error


async def _refusal(connection: KafkaConnection, doing: str) -> BusError | None:
    if connection.security.protocol == "plaintext":
        return None
    for server in connection.servers:
        found = await _attempt(connection, server, doing)
        if isinstance(found, BusMisconfigured):
            return found
    return None


async def _attempt(connection: KafkaConnection, server: str, doing: str) -> BusError | None:
    host, _, port = server.rpartition(":")
    place = (host.strip("[]"), int(port))
    try:
        probe = await create_conn(
            *place,
            client_id=connection.client_id,
            request_timeout_ms=connection.request_timeout_ms,
            **connection.security.options(),
        )
    except (KafkaError, OSError) as error:
        found = translate(error, doing)
        if isinstance(found, BusUnavailable) and connection.security.protocol.endswith("ssl"):
            return await _alert(connection, place, doing) or found
        return found
    await probe.close()
    return None


async def _alert(
    connection: KafkaConnection, place: tuple[str, int], doing: str
) -> BusMisconfigured | None:
    """Return what the broker says of our certificate, None if it says nothing.

    In TLS 1.3 it judges the certificate when the handshake is over for us: the verdict is an alert
    in place of the first answer. Whoever writes meanwhile may lose it to the reset of the
    connection, so this client only listens.
    """
    try:
        async with asyncio.timeout(min(connection.request_timeout_ms, ALERT_WAIT_MS) / 1000):
            context = connection.security.options()["ssl_context"]
            reader, writer = await asyncio.open_connection(*place, ssl=context)
            try:
                await reader.read(1)
            finally:
                writer.close()
    except ssl.SSLError as error:
        found = translate(error, doing)
        if isinstance(found, BusMisconfigured):
            return BusMisconfigured(found.code, f"{found.detail}: {_mend(connection.security)}")
    except OSError:  # TimeoutError too: a broker that waits for us to speak has no objection
        pass
    return None


def _mend(security: KafkaSecurity) -> str:
    """Return what is wrong with our certificate, as far as it can be seen from here.

    The alert itself tells little: Java's brokers say BAD_CERTIFICATE where there is none, and
    CERTIFICATE_UNKNOWN of one that has expired.
    """
    if security.cert_file is None:
        return "the broker asks for a certificate: SAGABUS_KAFKA_CERT_FILE"
    ended_at = _ended_at(security.cert_file)
    if ended_at is not None and ended_at <= datetime.now(UTC):
        return f"SAGABUS_KAFKA_CERT_FILE expired at {ended_at:%Y-%m-%dT%H:%M:%SZ}: renew it"
    return (
        "the broker trusts no authority of the certificate in SAGABUS_KAFKA_CERT_FILE, "
        "or does not take it for that of a client"
    )


def _ended_at(cert_file: Path) -> datetime | None:
    try:
        return x509.load_pem_x509_certificates(cert_file.read_bytes())[0].not_valid_after_utc
    except (OSError, ValueError):
        return None  # it loads no longer: it is being replaced
