"""A known secret is driven through failures and must come out nowhere: logs, output, reprs."""

import asyncio
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
import typer
from pydantic import SecretStr

from sagabus_bus import KafkaConnection, KafkaSecurity
from sagabus_cli import app
from sagabus_client import HttpClient
from sagabus_core.errors import InvalidValue
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
from sagabus_relay.config import RelaySettings
from sagabus_runtime import SettingsError, get_logger, load, logs
from sagabus_testkit import orders

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


def secrets(folder: Path) -> dict[str, str]:
    """Return every setting that can hold a secret, each with one; nobody answers at the servers."""
    broken = folder / "broken.pem"
    broken.write_text(f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n")
    return {
        "SAGABUS_POSTGRES": DSN,
        "SAGABUS_OUTBOXES": json.dumps({"orders": DSN}),
        "SAGABUS_CARDS_URL": "http://127.0.0.1:1",
        "SAGABUS_KAFKA": "127.0.0.1:1",
        "SAGABUS_KAFKA_PROTOCOL": "sasl_ssl",
        "SAGABUS_KAFKA_USERNAME": "orders",
        "SAGABUS_KAFKA_PASSWORD": SECRET,
        "SAGABUS_KAFKA_CERT_FILE": str(broken),
        "SAGABUS_KAFKA_KEY_PASSWORD": SECRET,
        "SAGABUS_API_KEY": f"sgb_{SECRET}",
        "SAGABUS_TOPIC_PREFIX": "",
    }


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command of the command line with its words."""
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    context = command.make_context("sagabus", [], resilient_parsing=True)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*path, name))


WORDS = {
    **dict.fromkeys(("most", "version", "other", "numbers", "row"), "1"),
    "where": "workflow=order",
    "kind": "pause",
    "what": "workflow",
    "grant": "viewer",
    "attest": "succeeded",
    "bulk_id": "6a0a4b0e-8a55-5e0c-9f0c-2f9d5a0c1b11",
}
"""What required parameters take, by name; `x` for all others."""

MORE = {
    "audit verify": ["--all"],
    "keys create": ["--all-tenants"],
    "quotas set": ["--running", "1"],
    "quotas remove": ["running"],
    "dlt redrive": ["x"],
    "dlt discard": ["x"],
    "parked redrive": ["1"],
    "parked discard": ["1"],
}
"""What commands want besides their required parameters."""

ORDER = Path(orders.__file__).with_name("order.v1.json")


def sample(parameter: Any, file: Path) -> list[str]:
    """Return words that a required parameter takes."""
    takes_file = parameter.name in {"file", "payload", "evidence"}
    word = str(file) if takes_file else WORDS.get(parameter.name, "x")
    return [parameter.opts[0], word] if parameter.param_type_name == "option" else [word]


STARTS_SERVERS = {"up", "down", "check-stack", "demo", "services", "join", "new participant"}
TREE = typer.main.get_command(app.build())
COMMANDS = {
    " ".join(path): command
    for path, command in leaves(TREE)
    if " ".join(path) not in STARTS_SERVERS
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_that_fail(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every command, on the database and through the API, with the traceback that --debug shows."""
    for variable, value in secrets(tmp_path).items():
        monkeypatch.setenv(variable, value)
    file = tmp_path / "file.json"
    file.write_text('{"workflow": "order", "key": "ORD-1", "payload": {}}\n')
    file = file if name == "run" else ORDER
    required = [each for each in COMMANDS[name].params if each.required]
    options = [word for each in required for word in sample(each, file)]
    if name == "quotas remove":
        options.pop()
    options += MORE.get(name, [])
    ways = (["--direct"], ["--api", "http://127.0.0.1:1"])
    codes = {app.run(["--debug", *way, *name.split(), *options]) for way in ways}
    said = capsys.readouterr()
    assert 2 not in codes, "give it what it wants: MORE"
    assert not shows(said.out + said.err + caplog.text)


CREDENTIALS = [
    ("SAGABUS_API_KEY", f"sgb_\n{SECRET}"),
    ("SAGABUS_API_TOKEN", f"{SECRET}\x01"),
    ("SAGABUS_API_TOKEN", f"{SECRET}\xfc"),
    ("SAGABUS_API", f"http://orders:{SECRET}@127.0.0.1:1"),
    ("SAGABUS_API", f"http://orders:{SECRET}@[127.0.0.1"),
    *(("SAGABUS_POSTGRES", dsn) for dsn in [DSN, *MALFORMED]),
]


@pytest.mark.parametrize(("variable", "value"), CREDENTIALS, ids=range(len(CREDENTIALS)))
@pytest.mark.parametrize("option", ["--json", "--debug"])
def test_what_is_malformed_is_not_quoted(
    variable: str,
    value: str,
    option: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if variable.startswith("SAGABUS_API"):
        monkeypatch.setenv("SAGABUS_API", "http://127.0.0.1:1")
    if variable == "SAGABUS_API":
        monkeypatch.setenv("SAGABUS_API_KEY", "sgb_")
    monkeypatch.setenv(variable, value)
    assert app.run([option, "list"]) in {2, 3}
    said = capsys.readouterr()
    assert not shows(said.out + said.err), said.out + said.err


def test_a_client_does_not_quote_its_key() -> None:
    for key, token in ((f"a\n{SECRET}", None), (None, f"{SECRET}\xfc")):
        with pytest.raises(InvalidValue) as found:
            HttpClient("http://127.0.0.1:1", api_key=key, token=token)
        assert not shows(f"{found.value!r} {found.value.__cause__!r}")


SERVICES = {
    "orchestrator": "sagabus_orchestrator",
    "api": "sagabus_orchestrator.api",
    "timer": "sagabus_timer",
    "relay": "sagabus_relay",
    "inventory": "sagabus_example_inventory",
    "payment": "sagabus_example_payment",
    "shipping": "sagabus_example_shipping",
    "cards": "sagabus_example_cards",
}


def run_services(*words: str, **settings: str) -> dict[str, tuple[int, str]]:
    """Run every service, all at once, until it ends by itself; return exit code and output."""
    running = {
        name: subprocess.Popen(
            [sys.executable, "-m", module, *words],
            env=environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, module in SERVICES.items()
    }
    ended = {}
    for name, process in running.items():
        said, _ = process.communicate(timeout=120)
        ended[name] = (process.returncode, said)
    return ended


@pytest.mark.parametrize("dsn", MALFORMED, ids=range(7))
def test_settings_with_a_malformed_dsn(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGABUS_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("SAGABUS_POSTGRES", dsn)
    monkeypatch.setenv("SAGABUS_OUTBOXES", json.dumps({"orders": dsn}))
    monkeypatch.setenv("SAGABUS_OIDC_ISSUERS", json.dumps([{"name": SECRET, "issuer": SECRET}]))
    for kind in (OrchestratorSettings, ApiSettings, RelaySettings):
        with pytest.raises(SettingsError, match="SAGABUS_POSTGRES") as found:
            load(kind)
        assert not shows(f"{found.value!r} {found.value.__cause__!r} {found.value.__context__!r}")


def test_services_with_a_malformed_dsn(tmp_path: Path) -> None:
    given = {**secrets(tmp_path), "SAGABUS_POSTGRES": MALFORMED[0]}
    for name, (code, said) in run_services(**given).items():
        assert (code, "SAGABUS_POSTGRES" in said) == (78, True), f"{name}: {said}"
        assert not shows(said), said


def test_services_that_die_with_a_traceback(tmp_path: Path) -> None:
    """The port of the health endpoints is taken, which nobody expects."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = {**secrets(tmp_path), "SAGABUS_HEALTH_PORT": str(taken.getsockname()[1])}
        for name, (code, said) in run_services(**given).items():
            assert (code, "Traceback" in said) == (1, True), f"{name}: {said}"
            assert not shows(said), said


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
