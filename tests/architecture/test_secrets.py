"""A known secret is driven through failures and must come out nowhere: logs, output, reprs."""

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
import structlog
from pydantic import SecretStr

from sagabus_bus import KafkaConnection, KafkaSecurity
from sagabus_messages import Signer
from sagabus_orchestrator.api.config import ApiSettings
from sagabus_orchestrator.api.identity import (
    OidcIssuer,
    SigningKeys,
    TokenVerifier,
    Unauthenticated,
    read_key_text,
)
from sagabus_orchestrator.config import OrchestratorSettings
from sagabus_runtime import get_logger, logs

SECRET = "hunter2-correct-horse"
FRAGMENTS = ("hunter2", "correct-horse")
DSN = f"postgresql://owner:{SECRET}@127.0.0.1:1/db"
MALFORMED = [
    f"postgresql://owner:hunter2/{SECRET}@127.0.0.1/db",
    f"postgresql://owner:hunter2?{SECRET}@127.0.0.1/db",
    f"postgresql://owner:hunter2#{SECRET}@127.0.0.1/db",
    f"postgresql://owner:{SECRET}@127.0.0.1:port/db",
    f"mysql://owner:{SECRET}@127.0.0.1/db",
    f"owner:{SECRET}@127.0.0.1/db",
    f"postgresql://owner:{SECRET}@[127.0.0.1/db",
]


def shows(text: str) -> list[str]:
    return [fragment for fragment in FRAGMENTS if fragment in text]


def environment(**more: str) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, **more}


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("list", "--debug")], ids=str)
@pytest.mark.parametrize("dsn", [DSN, *MALFORMED], ids=range(8))
def test_commands(words: tuple[str, ...], dsn: str) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("sagabus"), *words],
        env=environment(SAGABUS_POSTGRES=dsn),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in {2, 3}, done.stdout + done.stderr
    assert not shows(done.stdout + done.stderr), done.stdout + done.stderr


@pytest.mark.parametrize("dsn", MALFORMED, ids=range(7))
@pytest.mark.parametrize("module", ["sagabus_orchestrator", "sagabus_orchestrator.api"])
def test_services_with_a_malformed_dsn(module: str, dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module],
        env=environment(
            SAGABUS_POSTGRES=dsn,
            SAGABUS_KAFKA="127.0.0.1:1",
            SAGABUS_KAFKA_PASSWORD=SECRET,
            SAGABUS_OIDC_ISSUERS=json.dumps([{"name": SECRET, "issuer": SECRET}]),
        ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 78
    assert "SAGABUS_POSTGRES" in done.stderr
    assert not shows(done.stdout + done.stderr), done.stdout + done.stderr


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_service_whose_database_is_away(form: str) -> None:
    lines = []
    with subprocess.Popen(
        [sys.executable, "-m", "sagabus_orchestrator"],
        env=environment(SAGABUS_POSTGRES=DSN, SAGABUS_KAFKA="127.0.0.1:1", SAGABUS_LOG_FORMAT=form),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as service:
        assert service.stdout is not None
        for line in service.stdout:
            lines.append(line)
            if "service.start_failed" in line:
                service.terminate()
    assert service.returncode == 0
    assert any("start_failed" in line for line in lines)
    assert not shows("".join(lines))


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_shows_no_variables(form: logs.LogFormat) -> None:
    out = io.StringIO()
    before = structlog.get_config()
    try:
        logs.configure("test", "debug", form, out)
        _fail_with(SECRET)
    finally:
        structlog.configure(**before)
    assert "ZeroDivisionError" in out.getvalue()
    assert not shows(out.getvalue())


def _fail_with(password: str) -> None:
    dsn = f"postgresql://owner:{password}@host/db"
    try:
        assert len(dsn) / 0
    except ZeroDivisionError:
        get_logger().exception("test.failed")


def test_settings_and_what_is_made_of_them() -> None:
    fields = {"postgres": DSN, "kafka": "a:1", "kafka_protocol": "sasl_ssl"}
    login = {"kafka_username": "orders", "kafka_password": SecretStr(SECRET)}
    key = read_key_text(f"sgb_{'a' * 16}_{'b' * 52}")
    assert key is not None
    for kind in (OrchestratorSettings, ApiSettings):
        settings = kind.model_validate({**fields, **login})
        connection = KafkaConnection.of(settings, "test")
        told = f"{settings!r} {settings} {connection!r} {settings.model_dump_json()}"
        assert not shows(told)
        assert not shows(json.dumps(kind.model_json_schema()))
    assert "bbbb" not in f"{key!r} {key}"
    assert "Ed25519" not in repr(Signer.of("a", b"1" * 32))
    assert not shows(repr(KafkaSecurity(password=SECRET, key_password=SECRET)))


def test_refused_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the answer nor the log holds the token, or any part that is not public."""
    issuer = OidcIssuer(name="corp", issuer="https://corp.example", audience="api")
    tokens = [
        f"{SECRET}.{SECRET}.{SECRET}",
        f"eyJhbGciOiJub25lIn0.{SECRET}.x",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2NvcnAuZXhhbXBsZSJ9." + SECRET,
    ]

    async def refuse() -> list[str]:
        said = []
        async with httpx.AsyncClient() as http:
            verifier = TokenVerifier([(issuer, SigningKeys(issuer, http))])
            for token in tokens:
                with pytest.raises(Unauthenticated) as found:
                    await verifier.verify(token)
                said.append(f"{found.value!r} {found.value.__cause__!r}")
        return said

    said = " ".join(asyncio.run(refuse()))
    captured = capsys.readouterr()
    assert "token_invalid" in said
    assert not shows(said + captured.out + captured.err)
