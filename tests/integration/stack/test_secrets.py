"""Every service turned away by a real Postgres: neither log nor HTTP answers hold the password."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from sagabus_testkit.stack import Postgres

SECRET = "hunter2-correct-horse"
FRAGMENTS = ("hunter2", "correct-horse")
SERVICES = (
    *("sagabus_orchestrator", "sagabus_orchestrator.api", "sagabus_timer", "sagabus_relay"),
    *("sagabus_example_inventory", "sagabus_example_payment", "sagabus_example_shipping"),
    "sagabus_example_cards",
)

pytestmark = pytest.mark.stack


def launch(module: str, dsn: str) -> subprocess.Popen[str]:
    settings = {
        "SAGABUS_POSTGRES": dsn,
        "SAGABUS_OUTBOXES": json.dumps({"orders": dsn}),
        "SAGABUS_KAFKA": "127.0.0.1:1",
        "SAGABUS_KAFKA_PROTOCOL": "sasl_plaintext",
        "SAGABUS_KAFKA_USERNAME": "orders",
        "SAGABUS_KAFKA_PASSWORD": SECRET,
        "SAGABUS_CARDS_URL": "http://127.0.0.1:1",
        "SAGABUS_LOG_FORMAT": "json",
        "SAGABUS_LOG_LEVEL": "debug",
    }
    return subprocess.Popen(
        [sys.executable, "-m", module],
        env={"PATH": os.environ["PATH"], **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def answer(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as found:
            return str(found.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def watch(service: subprocess.Popen[str]) -> str:
    """Return what a service says until it was turned away, and what it answers then."""
    said, port = [], 0
    assert service.stdout is not None
    for line in service.stdout:
        said.append(line)
        event = json.loads(line)
        port = event["port"] if event["event"] == "health.listening" else port
        if event["event"] == "service.start_failed" and port:
            said += [answer(port, path) for path in ("/live", "/ready", "/metrics", "/")]
            port = 0  # it is tried again until it has heard of its end
            service.terminate()
    return "".join(said)


def test_a_wrong_password_shows_nowhere(postgres: Postgres) -> None:
    address = urlsplit(postgres.dsn)
    login = f"{address.username}:{SECRET}@{address.hostname}:{address.port}"
    with ExitStack() as stack:
        running = {}
        for name in SERVICES:
            running[name] = stack.enter_context(
                launch(name, address._replace(netloc=login).geturl())
            )
            stack.callback(running[name].kill)
        for name, service in running.items():
            said = watch(service)
            assert service.wait(30) == 0, said
            assert "store_misconfigured" in said, f"{name}: {said}"
            assert not [each for each in FRAGMENTS if each in said], said
