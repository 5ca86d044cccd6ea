"""Kafka as a process of ours: one KRaft node from cached jars, a formatted template and archive."""

from __future__ import annotations

import base64
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from sagabus_testkit.stack.cache import build_once
from sagabus_testkit.stack.commands import run
from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.home import StackHome
from sagabus_testkit.stack.kafka import Kafka, ProxiedListener
from sagabus_testkit.stack.kafka_install import (
    Java,
    KafkaInstall,
    check_java,
    find_java,
    find_kafka,
)
from sagabus_testkit.stack.kafka_settings import ListenerPorts, broker_settings, properties_text
from sagabus_testkit.stack.ports import LOOPBACK, ReservedPorts
from sagabus_testkit.stack.probe import kafka_answers
from sagabus_testkit.stack.process import ProcessControl, ServerCommand, dies_with_guard
from sagabus_testkit.stack.secure_kafka import KafkaUser, SecureBroker

__all__ = ["local_kafka"]

LOG4J = Path(__file__).with_name("kafka-log4j2.properties")
HEAP = ("-Xms512m", "-Xmx512m")
JVM = (
    "-XX:+UseSerialGC",
    # Half of the start's CPU time is spent in the second compiler, which pays off only later.
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile={LOG4J}",
)
_ARCHIVE, _META = "kafka.jsa", "meta.properties"


def local_kafka(
    home: StackHome,
    settings: Mapping[str, str],
    users: Sequence[KafkaUser] = (),
) -> Kafka:
    """Prepare a broker below `home`; it is not started yet. Raises `StackError`.

    With `users` it has listeners with TLS besides, with certificates made now.
    """
    java = find_java()
    install = find_kafka()
    template = _template(java, install)
    directory = home.directory / "kafka"
    if not (directory / "data" / _META).exists():
        shutil.rmtree(directory, ignore_errors=True)
    ports = _ports(home.ports)
    secure = _secure(directory, home.ports, users) if users else None
    directory.mkdir(exist_ok=True)
    chosen = {**broker_settings(ports, str(directory / "data"), secure), **settings}
    (directory / "server.properties").write_text(properties_text(chosen))
    if not (directory / "data").exists():
        if secure is not None:
            _format(java, install, directory, secure.format_arguments())
        else:
            shutil.copytree(template / "data", directory / "data")
            _renew_ids(directory / "data" / _META)
    archive = f"-XX:SharedArchiveFile={template / _ARCHIVE}"
    command = _command(java, install, directory, (archive,), ports.client)
    return Kafka(
        f"{LOOPBACK}:{ports.client}",
        ProcessControl(command, home.lock),
        ProxiedListener(ports.proxied, ports.proxied_advertised),
        None if secure is None else secure.listener,
    )


def _command(
    java: Java, install: KafkaInstall, directory: Path, flags: tuple[str, ...], port: int
) -> ServerCommand:
    return ServerCommand(
        name="kafka",
        argv=(
            *dies_with_guard("SIGTERM"),
            *(str(java.path), *HEAP, *JVM, *flags, "-cp", install.class_path),
            *("kafka.Kafka", str(directory / "server.properties")),
        ),
        directory=directory.parent,
        answers=lambda: kafka_answers(LOOPBACK, port),
    )


def _ports(reserved: ReservedPorts) -> ListenerPorts:
    return ListenerPorts(reserved.take(), reserved.take(), reserved.take(), reserved.take())


def _secure(directory: Path, reserved: ReservedPorts, users: Sequence[KafkaUser]) -> SecureBroker:
    return SecureBroker.prepare(directory, (reserved.take(), reserved.take()), users)


def _template(java: Java, install: KafkaInstall) -> Path:
    """Return formatted storage and an archive of loaded classes, which save 3 s per start."""

    def build(target: Path) -> None:
        check_java(java)
        _build_template(java, install, target)

    return build_once(install.jars.parent / f"java-{java.key}", build)


def _build_template(java: Java, install: KafkaInstall, target: Path) -> None:
    work = target / "training"
    work.mkdir()
    reserved = ReservedPorts()
    ports = _ports(reserved)
    (work / "server.properties").write_text(
        properties_text(broker_settings(ports, str(work / "data")))
    )
    try:
        _format(java, install, work)
        shutil.copytree(work / "data", target / "data")
        # A broker that starts and stops once leaves the archive of the classes that it loaded.
        flags = (f"-XX:ArchiveClassesAtExit={target / _ARCHIVE}",)
        training = ProcessControl(_command(java, install, work, flags, ports.client))
        try:
            training.start()
        finally:
            training.stop()
    finally:
        reserved.release()
    shutil.rmtree(work)


def _format(java: Java, install: KafkaInstall, work: Path, arguments: tuple[str, ...] = ()) -> None:
    tool = ("kafka.tools.StorageTool", "format", "-t", _new_id(), *arguments)
    launcher = (java.path, "-Xmx256m", *JVM, "-cp", install.class_path)
    done = run((*launcher, *tool, "-c", work / "server.properties"))
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()[-400:]
        raise StackError("kafka_format_failed", f"Kafka could not format its storage: {words}")


def _renew_ids(meta: Path) -> None:
    """Give a copied storage ids of its own, so that no client takes one cluster for another."""
    text = re.sub(
        r"^(cluster\.id|directory\.id)=.*$",
        lambda match: f"{match.group(1)}={_new_id()}",
        meta.read_text(),
        flags=re.MULTILINE,
    )
    meta.write_text(text)


def _new_id() -> str:
    """Return a random id as Kafka writes them; a leading dash would look like an option."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
