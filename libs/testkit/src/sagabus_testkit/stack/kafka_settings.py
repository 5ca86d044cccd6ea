"""The settings of a broker that is its own controller, alone, and quick to start again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sagabus_testkit.stack.ports import LOOPBACK
from sagabus_testkit.stack.secure_kafka import MUTUAL, SECURE, SecureBroker

__all__ = ["ListenerPorts", "broker_settings", "properties_text"]


@dataclass(frozen=True, slots=True)
class ListenerPorts:
    """Ports of the broker: for clients, for its controller, behind and before a proxy."""

    client: int
    controller: int
    proxied: int
    proxied_advertised: int


_PROTOCOLS = "listener.security.protocol.map"
_SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    _PROTOCOLS: "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
    # A restart waits until the former registration has ended: at once after a controlled
    # shutdown, after this session time when the broker was killed (9 s by default).
    "controlled.shutdown.enable": "true",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "100",
    "controller.quorum.fetch.timeout.ms": "2000",
}


def broker_settings(
    ports: ListenerPorts, log_directory: str, secure: SecureBroker | None = None
) -> dict[str, str]:
    """Return server.properties as a mapping."""
    listeners = {
        "PLAINTEXT": ports.client,
        "PROXIED": ports.proxied,
        "CONTROLLER": ports.controller,
    }
    advertised = {"PLAINTEXT": ports.client, "PROXIED": ports.proxied_advertised}
    protocols = _SETTINGS[_PROTOCOLS]
    if secure is not None:
        listeners[SECURE] = advertised[SECURE] = secure.port
        listeners[MUTUAL] = advertised[MUTUAL] = secure.mutual_port
        protocols = f"{protocols},{SECURE}:SASL_SSL,{MUTUAL}:SSL"
    return {
        **_SETTINGS,
        **({} if secure is None else secure.settings()),
        _PROTOCOLS: protocols,
        "controller.quorum.voters": f"1@{LOOPBACK}:{ports.controller}",
        "listeners": _addresses(listeners),
        "advertised.listeners": _addresses(advertised),
        "log.dirs": log_directory,
    }


def properties_text(settings: Mapping[str, str]) -> str:
    """Return the settings in the format of a Java properties file."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _addresses(listeners: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items())
