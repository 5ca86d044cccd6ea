"""Settings fail early, name the variable, and never show a secret."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from sagabus_runtime import KafkaSettings, PostgresSettings, ServiceSettings, SettingsError, load
from sagabus_runtime.settings import describe

SECRETS = {"SAGABUS_POSTGRES", "SAGABUS_KAFKA_PASSWORD", "SAGABUS_KAFKA_KEY_PASSWORD"}


class Both(KafkaSettings, PostgresSettings):
    """A service with everything."""


@pytest.fixture
def good(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("SAGABUS_KAFKA", "127.0.0.1:9092,b:1")
    monkeypatch.setenv("SAGABUS_POSTGRES", "postgresql://u:hush@h/db")
    return monkeypatch


def test_a_good_environment_gives_frozen_settings(good: pytest.MonkeyPatch) -> None:
    good.setenv("SAGABUS_HEALTH_PORT", "8080")
    settings = load(Both)
    assert settings.health_port == 8080
    assert settings.postgres.get_secret_value() == "postgresql://u:hush@h/db"
    with pytest.raises(ValidationError):
        settings.health_port = 1  # type: ignore[misc]  # being refused is the point


def test_a_secret_is_in_no_representation(good: pytest.MonkeyPatch) -> None:
    assert "hush" not in f"{load(Both)!r}{load(Both)}{load(Both).model_dump_json()}"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("SAGABUS_POSTGRES", "mysql://u:hush@h/db", "SAGABUS_POSTGRES is wrong: must look like"),
        ("SAGABUS_POSTGRES", "postgresql://u:hush@h", "SAGABUS_POSTGRES is wrong"),
        ("SAGABUS_KAFKA", "nowhere", "SAGABUS_KAFKA is wrong: must be a comma-separated list"),
        ("SAGABUS_HEALTH_PORT", "70000", "SAGABUS_HEALTH_PORT is wrong"),
        ("SAGABUS_LOG_LEVEL", "loud", "SAGABUS_LOG_LEVEL is wrong"),
        ("SAGABUS_TOPIC_PREFIX", "no-dot", "SAGABUS_TOPIC_PREFIX is wrong"),
    ],
)
def test_a_wrong_variable_is_named(
    good: pytest.MonkeyPatch, variable: str, value: str, expected: str
) -> None:
    good.setenv(variable, value)
    with pytest.raises(SettingsError) as caught:
        load(Both)
    assert caught.value.code == "invalid_settings"
    assert expected in caught.value.detail
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None, "the cause would carry raw values into a traceback"
    assert caught.value.__context__ is None


def test_all_missing_variables_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAGABUS_KAFKA", raising=False)
    monkeypatch.delenv("SAGABUS_POSTGRES", raising=False)
    with pytest.raises(SettingsError, match=r"SAGABUS_KAFKA is not set") as caught:
        load(Both)
    assert "SAGABUS_POSTGRES is not set" in caught.value.detail


@pytest.mark.parametrize("settings", [ServiceSettings, Both])
def test_every_variable_is_documented(settings: type[ServiceSettings]) -> None:
    variables = describe(settings)
    assert all(variable.meaning for variable in variables)
    assert all(variable.name.startswith("SAGABUS_") for variable in variables)
    assert {v.name for v in variables if v.secret} <= SECRETS


def test_the_readme_lists_every_variable_of_every_service() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    missing = [v.name for v in describe(ServiceSettings) if f"`{v.name}`" not in readme]
    assert missing == []


KAFKA = {"SAGABUS_KAFKA": "127.0.0.1:9092"}
SASL = {"SAGABUS_KAFKA_USERNAME": "orders", "SAGABUS_KAFKA_PASSWORD": "hunter2hunter2"}

OAUTH = {"PROTOCOL": "sasl_ssl", "MECHANISM": "OAUTHBEARER", "TOKEN_FILE": __file__}


class TestKafkaSecurity:
    @pytest.mark.parametrize(
        ("more", "says"),
        [
            ({"PROTOCOL": "sasl_ssl"}, "SAGABUS_KAFKA_PASSWORD, SAGABUS_KAFKA_USERNAME"),
            ({"PROTOCOL": "ssl", **SASL}, "makes no use of SAGABUS_KAFKA_PASSWORD"),
            (SASL, "plaintext makes no use of SAGABUS_KAFKA_PASSWORD"),
            ({"CA_FILE": __file__}, "plaintext makes no use of SAGABUS_KAFKA_CA_FILE"),
            ({"PROTOCOL": "ssl", "CA_FILE": "/nowhere"}, "SAGABUS_KAFKA_CA_FILE is wrong"),
            ({"PROTOCOL": "ssl", "KEY_FILE": __file__}, "SAGABUS_KAFKA_CERT_FILE"),
            ({"PROTOCOL": "tls"}, "SAGABUS_KAFKA_PROTOCOL is wrong"),
            ({"PROTOCOL": "sasl_ssl", "MECHANISM": "GSSAPI", **SASL}, "SAGABUS_KAFKA_MECHANISM"),
            ({**OAUTH, "TOKEN_FILE": ""}, "SAGABUS_KAFKA_TOKEN_FILE"),
            ({**OAUTH, **SASL}, "makes no use of SAGABUS_KAFKA_PASSWORD"),
            ({**OAUTH, "MECHANISM": "PLAIN", **SASL}, "makes no use of SAGABUS_KAFKA_TOKEN_FILE"),
        ],
        ids=range(11),
    )
    def test_what_does_not_fit_is_named(
        self, monkeypatch: pytest.MonkeyPatch, more: dict[str, str], says: str
    ) -> None:
        for name, value in {**KAFKA, **more}.items():
            monkeypatch.setenv(
                name if name.startswith("SAGABUS_") else f"SAGABUS_KAFKA_{name}", value
            )
        with pytest.raises(SettingsError) as found:
            load(KafkaSettings)
        assert says in found.value.detail
        assert "hunter2" not in str(found.value)

    def test_what_fits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = {**KAFKA, **SASL, "SAGABUS_KAFKA_PROTOCOL": "sasl_ssl"}
        for name, value in {**told, "SAGABUS_KAFKA_CA_FILE": __file__}.items():
            monkeypatch.setenv(name, value)
        settings = load(KafkaSettings)
        assert settings.kafka_password is not None
        assert "hunter2" not in repr(settings)
