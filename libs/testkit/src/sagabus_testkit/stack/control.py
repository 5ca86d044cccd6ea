"""Power over one server: the same verbs for a process of ours, a container, a foreign server."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from sagabus_testkit.stack.errors import NotControllable, StackError
from sagabus_testkit.stack.waiting import Probe, wait_until

__all__ = ["Control", "ExternalControl"]


class Control(Protocol):
    """What a stack and a fault injector can do to a server.

    `start` returns once the server works, `stop` and `kill` once it is gone; address and data stay
    the same over a restart. Each verb may be called twice. Errors: `StackError`.
    """

    @property
    def kind(self) -> str:
        """Where the server comes from: `process`, `docker` or `external`."""
        ...

    @property
    def pid(self) -> int | None:
        """The id of the server's process while it runs on this machine."""
        ...

    @property
    def log_path(self) -> Path | None:
        """The file that holds what the server says."""
        ...

    def spawn(self) -> None:
        """Begin to start, without waiting."""
        ...

    def wait_ready(self) -> None:
        """Wait until the server works."""
        ...

    def start(self) -> None:
        """Start and wait until the server works."""
        ...

    def stop(self, signal_name: str | None = None) -> None:
        """Stop in good order, or as the named signal makes this server stop."""
        ...

    def kill(self) -> None:
        """End the server at once, as a crash would (SIGKILL)."""
        ...

    def pause(self) -> None:
        """Freeze the server: connections stay open and nothing answers."""
        ...

    def resume(self) -> None:
        """Thaw a frozen server."""
        ...


class ExternalControl:
    """A server that the environment names: it is waited for and otherwise left alone."""

    kind = "external"
    pid: int | None = None
    log_path: Path | None = None

    def __init__(self, what: str, variable: str, answers: Probe) -> None:
        self._what = what
        self._variable = variable
        self._answers = answers

    def spawn(self) -> None:
        """Do nothing: somebody else starts this server."""

    def wait_ready(self) -> None:
        """Wait up to 15 s for an answer, else raise `StackError` (`external_unreachable`)."""
        if not wait_until(self._answers, within_s=15):
            raise StackError(
                "external_unreachable",
                f"{self._what} does not answer where {self._variable} says: "
                "start it, or unset the variable to get one from the local stack",
            )

    def start(self) -> None:
        """Refuse: see `NotControllable`."""
        self._refuse()

    def stop(self, signal_name: str | None = None) -> None:
        """Refuse: see `NotControllable`."""
        del signal_name
        self._refuse()

    def kill(self) -> None:
        """Refuse: see `NotControllable`."""
        self._refuse()

    def pause(self) -> None:
        """Refuse: see `NotControllable`."""
        self._refuse()

    def resume(self) -> None:
        """Refuse: see `NotControllable`."""
        self._refuse()

    def _refuse(self) -> None:
        raise NotControllable(
            "not_controllable",
            f"{self._what} is named by {self._variable} and not ours to stop: "
            "unset the variable for tests that inject faults",
        )
