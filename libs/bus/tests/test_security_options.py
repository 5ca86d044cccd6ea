"""What the driver is told about TLS and SASL; a real listener is in tests/integration/bus."""

import ssl
from pathlib import Path

import pytest

from sagabus_bus import BusMisconfigured, BusUnavailable, KafkaConnection, KafkaSecurity, translate
from sagabus_testkit.stack.authority import make_authority


def connection(security: KafkaSecurity) -> KafkaConnection:
    return KafkaConnection("a:1, b:2", "test", security=security)


def test_every_client_gets_the_same_options(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(make_authority().certificate_pem)
    options = connection(
        KafkaSecurity("sasl_ssl", ca_file=ca, username="orders", password="pw")
    ).options()
    assert options["bootstrap_servers"] == ["a:1", "b:2"]
    assert options["security_protocol"] == "SASL_SSL"
    assert (options["sasl_mechanism"], options["sasl_plain_username"]) == (
        "SCRAM-SHA-512",
        "orders",
    )
    context = options["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_without_security_nothing_is_added() -> None:
    options = connection(KafkaSecurity()).options()
    assert options["security_protocol"] == "PLAINTEXT"
    assert not {"ssl_context", "sasl_plain_password"} & options.keys()


def test_a_client_certificate_comes_with_its_key(tmp_path: Path) -> None:
    both = tmp_path / "client.pem"
    both.write_bytes(make_authority().issue("client"))
    assert connection(KafkaSecurity("ssl", cert_file=both)).options()["ssl_context"]
    both.write_text("nonsense")
    with pytest.raises(BusMisconfigured, match="_CERT_FILE"):
        connection(KafkaSecurity("ssl", cert_file=both)).options()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), BusMisconfigured),
        (ssl.SSLError(1, "wrong version number"), BusMisconfigured),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), BusUnavailable),
        (ConnectionResetError(), BusUnavailable),
    ],
    ids=repr,
)
def test_a_refusal_is_told_from_an_outage(error: OSError, kind: type[Exception]) -> None:
    assert type(translate(error, "reach Kafka")) is kind
