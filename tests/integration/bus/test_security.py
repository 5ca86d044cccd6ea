"""Producer, consumer and admin through a real listener with TLS and SASL; and those it refuses."""

import asyncio
import base64
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sagabus_bus import (
    BusMisconfigured,
    BusUnavailable,
    KafkaConnection,
    KafkaSecurity,
    Published,
    Publisher,
    PublisherOptions,
    Tail,
    TopicAdmin,
)
from sagabus_messages import OutboxRow
from sagabus_testkit.stack import Kafka
from sagabus_testkit.stack.authority import make_authority
from sagabus_testkit.stack.home import StackHome
from sagabus_testkit.stack.kafka import SecureListener
from sagabus_testkit.stack.local_kafka import local_kafka
from sagabus_testkit.stack.secure_kafka import KafkaUser

from .support import spec

SECRET = "correct-horse-battery"
USERS = (
    KafkaUser("PLAIN", "orders", SECRET),
    KafkaUser("SCRAM-SHA-256", "billing", SECRET),
    KafkaUser("SCRAM-SHA-512", "shipping", SECRET),
)

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with ExitStack() as stack:
        home = StackHome(f"secure-{os.getpid()}")
        stack.callback(home.close)
        kafka = local_kafka(home, {}, USERS)
        kafka.start()
        stack.callback(kafka.kill)
        yield kafka


@pytest.fixture
def listener(broker: Kafka) -> SecureListener:
    assert broker.secure is not None
    return broker.secure


def connect(listener: SecureListener, user: KafkaUser = USERS[2]) -> KafkaConnection:
    security = KafkaSecurity(
        protocol="sasl_ssl",
        ca_file=listener.ca_file,
        mechanism=user.mechanism,
        username=user.name,
        password=user.password,
    )
    return KafkaConnection(listener.bootstrap, "test", 5_000, security)


async def publish(connection: KafkaConnection, topic: str) -> object:
    publisher = Publisher(connection, PublisherOptions(transactional_id=topic))
    try:
        return (await publisher.publish([OutboxRow(topic, b"k", (), b"v")]))[0]
    finally:
        await publisher.close()


@pytest.mark.parametrize("user", USERS, ids=lambda user: user.mechanism)
async def test_every_client_gets_through(
    listener: SecureListener, topic_prefix: str, user: KafkaUser
) -> None:
    connection, topic = connect(listener, user), f"{topic_prefix}.orders"
    async with TopicAdmin(connection) as admin:
        await admin.ensure([spec(topic)])
    assert isinstance(await publish(connection, topic), Published)
    async with Tail(connection, [topic], begin="beginning") as tail:
        (record,) = await tail.poll(wait_ms=10_000)
    assert record.value == b"v"


async def refusal(connection: KafkaConnection) -> str:
    """Return why an admin client and a producer cannot start: both for the same reason."""
    with pytest.raises(BusMisconfigured) as found:
        async with TopicAdmin(connection):
            pass
    with pytest.raises(BusMisconfigured) as again:
        await publish(connection, "orders")
    assert found.value.code == again.value.code == "bus_misconfigured"
    text = f"{found.value!r} {again.value!r} {connection!r}"
    assert SECRET not in text
    return found.value.detail


@pytest.mark.parametrize("user", USERS, ids=lambda user: user.mechanism)
async def test_a_wrong_password(
    listener: SecureListener, user: KafkaUser, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = replace(user, password=f"{SECRET}-not")
    assert "SaslAuthenticationFailed" in await refusal(connect(listener, wrong))
    assert SECRET not in caplog.text


async def test_a_user_of_another_mechanism(listener: SecureListener) -> None:
    await refusal(connect(listener, replace(USERS[0], mechanism="SCRAM-SHA-512")))


async def test_a_certificate_of_somebody_else(listener: SecureListener, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(make_authority().certificate_pem)
    strange = replace(listener, ca_file=other)
    assert "CERTIFICATE_VERIFY_FAILED" in await refusal(connect(strange))


async def test_the_name_in_the_certificate_counts(listener: SecureListener) -> None:
    renamed = replace(listener, bootstrap=listener.bootstrap.replace("127.0.0.1", "localhost"))
    assert "CERTIFICATE_VERIFY_FAILED" in await refusal(connect(renamed))


def certified(listener: SecureListener, client_file: Path | None) -> KafkaConnection:
    security = KafkaSecurity("ssl", ca_file=listener.ca_file, cert_file=client_file)
    return KafkaConnection(listener.mutual, "test", 5_000, security)


def token(subject: str, lives_s: int = 600) -> str:
    """Return a token that nobody has signed: the test's broker believes it."""
    now = time.time()
    claims = {"sub": subject, "iat": now, "exp": now + lives_s}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


async def test_a_token_from_a_file_that_somebody_keeps_fresh(
    listener: SecureListener, topic_prefix: str, tmp_path: Path
) -> None:
    file, topic = tmp_path / "token", f"{topic_prefix}.orders"
    security = KafkaSecurity(
        "sasl_ssl", ca_file=listener.ca_file, mechanism="OAUTHBEARER", token_file=file
    )
    connection = KafkaConnection(listener.bootstrap, "test", 5_000, security)
    for text in ("", "two words", f"{SECRET}\n{SECRET}"):
        file.write_text(text)
        assert "SAGABUS_KAFKA_TOKEN_FILE" in await refusal(connection)
    for text in (token("orders", -600), SECRET):
        file.write_text(text)
        assert "SaslAuthenticationFailed" in await refusal(connection)
    file.write_text(token("orders") + "\n")
    async with TopicAdmin(connection) as admin:
        await admin.ensure([spec(topic)])
    assert isinstance(await publish(connection, topic), Published)


async def test_a_broker_that_asks_for_certificates(
    listener: SecureListener, topic_prefix: str
) -> None:
    connection, topic = certified(listener, listener.client_file), f"{topic_prefix}.orders"
    async with TopicAdmin(connection) as admin:
        await admin.ensure([spec(topic)])
    assert isinstance(await publish(connection, topic), Published)
    async with Tail(connection, [topic], begin="beginning") as tail:
        assert await tail.poll(wait_ms=10_000)


async def test_certificates_that_the_broker_refuses(
    listener: SecureListener, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign.pem"
    foreign.write_bytes(make_authority().issue("client"))
    for client_file, told in (
        (None, "asks for a certificate: SAGABUS_KAFKA_CERT_FILE"),
        (foreign, "trusts no authority of the certificate in SAGABUS_KAFKA_CERT_FILE"),
        (listener.expired_file, "SAGABUS_KAFKA_CERT_FILE expired at"),
    ):
        assert told in await refusal(certified(listener, client_file))


async def test_tls_to_a_listener_without(listener: SecureListener, broker: Kafka) -> None:
    plain = replace(listener, bootstrap=broker.bootstrap)
    with pytest.raises((BusMisconfigured, BusUnavailable)):
        async with TopicAdmin(connect(plain)):
            pass


async def test_a_file_that_is_no_certificate(listener: SecureListener, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    assert "SAGABUS_KAFKA_CA_FILE" in await refusal(connect(replace(listener, ca_file=nonsense)))


async def test_a_broker_that_is_away_is_told_as_one_all_the_same(listener: SecureListener) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(BusUnavailable):
            async with TopicAdmin(connect(replace(listener, bootstrap="127.0.0.1:1"))):
                pass
