"""Which API, Kafka and database a command works on: options, environment, dev stack."""

from __future__ import annotations

import os
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sagabus_cli.address import ApiAddress, api_of_stack, proved
from sagabus_cli.errors import NotReachable, UsageError

if TYPE_CHECKING:
    from sagabus_bus import KafkaConnection
    from sagabus_messages import Topics

__all__ = ["DEV", "Connection", "checked_dsn", "choose_connection", "current_connection"]

DEV = "dev"
"""Name of the local stack of `sagabus up`, and of the system that `sagabus services` runs on it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """What the options said; None is looked up in the environment, then in the dev stack."""

    kafka: str | None = None
    postgres: str | None = None
    prefix: str | None = None
    api_url: str | None = None
    api_key_file: Path | None = None
    direct: bool = False
    """Work on the database, whatever API is known."""

    @property
    def api(self) -> ApiAddress | None:
        """The API to go through, None to work on the database.

        Through it goes what names it (--api, SAGABUS_API, `sagabus services` on the dev stack),
        unless the database is asked for (--direct, --postgres, or SAGABUS_POSTGRES without
        SAGABUS_API). Raises `UsageError` (`invalid_address`, `no_credentials`, `unreadable_file`).
        """
        if self.direct or (self.postgres and not self.api_url):
            return None
        named = self.api_url or os.environ.get("SAGABUS_API")
        if named:
            return proved(named, self.api_key_file)
        return None if os.environ.get("SAGABUS_POSTGRES") else api_of_stack(DEV)

    @property
    def bus(self) -> KafkaConnection:
        """How to reach Kafka, by the TLS and SASL variables of services where it is named.

        Raises `NotReachable` (`no_kafka`) if nothing names it, `SettingsError`.
        """
        from sagabus_bus import KafkaConnection, KafkaSecurity  # noqa: PLC0415 - slow: the driver
        from sagabus_runtime import KafkaSecuritySettings, load  # noqa: PLC0415

        named = self.kafka or os.environ.get("SAGABUS_KAFKA")
        if named:
            security = KafkaSecurity.of(load(KafkaSecuritySettings))
            return KafkaConnection(named, "sagabus-cli", security=security)
        address = _dev_stack("kafka")
        if address is None:
            raise NotReachable(
                "no_kafka",
                "no Kafka is known: start one with `sagabus up`, or name it by --kafka or "
                "SAGABUS_KAFKA",
            )
        return KafkaConnection(address, "sagabus-cli")

    @property
    def topics(self) -> Topics:
        """The topic names of the environment."""
        from sagabus_messages import Topics  # noqa: PLC0415 - slow

        named = self.prefix if self.prefix is not None else os.environ.get("SAGABUS_TOPIC_PREFIX")
        if named is None:
            named = "" if self.kafka or os.environ.get("SAGABUS_KAFKA") else f"{DEV}."
        return Topics(named)

    @property
    def database(self) -> str:
        """The DSN of the orchestrator's database.

        Raises `NotReachable` (`no_postgres`), `UsageError` (`invalid_address`).
        """
        named = self.postgres or os.environ.get("SAGABUS_POSTGRES")
        if named:
            return checked_dsn(named, "--postgres or SAGABUS_POSTGRES")
        if not self.direct and (self.api_url or os.environ.get("SAGABUS_API")):
            # The stack of this machine is not what an API somewhere else stands for.
            raise NotReachable(
                "no_postgres",
                "this command works on the orchestrator's database itself, and only an API is "
                "named: name the database by --postgres or SAGABUS_POSTGRES",
            )
        server = _dev_stack("postgres")
        if server is None:
            raise NotReachable(
                "no_postgres",
                "no orchestrator database is known: start one with `sagabus up` and `sagabus "
                "services`, or name it by --postgres or SAGABUS_POSTGRES",
            )
        return urlsplit(server)._replace(path=f"/{DEV}_orchestrator").geturl()


def checked_dsn(dsn: str, origin: str) -> str:
    """Return a DSN that can be read in one way only. Raises `UsageError` (`invalid_address`)."""
    from sagabus_runtime.settings import check_dsn  # noqa: PLC0415 - seldom needed

    try:
        return check_dsn(dsn)
    except ValueError as error:
        problem = UsageError("invalid_address", f"{origin} {error}")
    raise problem  # without the cause: nothing of the value belongs into a traceback


def _dev_stack(server: str) -> str | None:
    from sagabus_testkit.stack.record import read_record  # noqa: PLC0415 - seldom needed

    record = read_record(DEV)
    return None if record is None else str(getattr(record, server))


def current_connection() -> Connection:
    """Return the connection that the global options of this run chose."""
    return _CURRENT.get()


def choose_connection(connection: Connection) -> None:
    """Let the commands of this run work on `connection`."""
    _CURRENT.set(connection)


_NOTHING_SAID = Connection()
_CURRENT: ContextVar[Connection] = ContextVar("sagabus_connection", default=_NOTHING_SAID)
