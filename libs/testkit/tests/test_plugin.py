"""The plugin: marks, the closed network, and that a missing server fails."""

import socket
from pathlib import Path

import pytest
from pytest_socket import SocketConnectBlockedError

pytest_plugins = ["pytester"]

SUITE = """
import pytest

def test_unit(): pass
def test_with_database(database): pass
def test_with_kafka(kafka): pass
def test_prefix(topic_prefix): assert topic_prefix.isalnum()
"""


@pytest.mark.filterwarnings("ignore:A test tried")
def test_the_network_is_closed() -> None:
    with pytest.raises(SocketConnectBlockedError):
        socket.create_connection(("192.0.2.1", 80), 0.1)


def test_loopback_and_unix_sockets_are_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    left, right = socket.socketpair()
    left.close()
    right.close()


def _run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.makeini("[pytest]\nmarkers =\n    stack: servers\n    drill: drills\n")
    pytester.makepyfile(SUITE)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)


def test_tests_on_servers_are_marked(pytester: pytest.Pytester) -> None:
    _run(pytester, "-m", "not stack").assert_outcomes(passed=2, deselected=2)


def test_a_missing_server_fails_and_never_skips(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGABUS_STACK", "local")
    monkeypatch.setenv("SAGABUS_CACHE", str(pytester.path / "cache"))
    monkeypatch.setenv("PATH", str(pytester.path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SAGABUS_KAFKA", raising=False)
    result = _run(pytester, "-k", "kafka")
    result.assert_outcomes(errors=1, deselected=3)
    result.stdout.fnmatch_lines(["*java_missing: Java 17 or newer is missing: apt-get install*"])
    assert not list(pytester.path.glob(".stack/*"))
