"""A participant's project on the dev stack: its process, and a relay for its outbox."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sagabus_bus import TopicAdmin
from sagabus_cli.connection import DEV
from sagabus_cli.errors import NotReachable, Refused, UsageError
from sagabus_cli.output import current_output
from sagabus_cli.processes import revive, until_signal
from sagabus_cli.scaffold.writing import check_participant_name
from sagabus_testkit.stack.home import StackHome
from sagabus_testkit.stack.record import StackRecord, read_record
from sagabus_testkit.system import SERVICES, Servers, ServiceKind, System

__all__ = ["Project", "read_project", "run_joined"]

_LOOK_EVERY_S: Final = 1.0
_PARTITIONS: Final = 4
"""As `sagabus services` makes them: a saga's topics have equal counts."""


@dataclass(frozen=True, slots=True)
class Project:
    """What `[tool.sagabus]` of a project's pyproject.toml says."""

    directory: Path
    participant: str
    module: str
    workflows: tuple[Path, ...]


def read_project(directory: Path) -> Project:
    """Return a project. Raises `UsageError` (`no_project`, `invalid_name`, `name_taken`)."""
    file = directory / "pyproject.toml"
    try:
        section: dict[str, Any] = tomllib.loads(file.read_text())["tool"]["sagabus"]
        name, module = str(section["participant"]), str(section["module"])
        workflows = tuple(directory / str(each) for each in section["workflows"])
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as cause:
        raise UsageError(
            "no_project",
            f"{file} has no readable [tool.sagabus] with participant, module and workflows: "
            "name a directory that `sagabus new participant` wrote",
        ) from cause
    check_participant_name(name)
    return Project(directory, name, module, workflows)


def run_joined(directory: Path) -> None:
    """Run a project until a signal.

    Raises `NotReachable` (`no_stack`), `Refused` (`workflow_not_active`), `StackError`.
    """
    project = read_project(directory)
    record = read_record(DEV)
    if record is None:
        raise NotReachable("no_stack", "no stack runs: start one with `sagabus up` (or `make up`)")
    home = StackHome(f"join-{project.participant}", root=Path(record.directory), keep=True)
    try:
        with until_signal() as ended, _system(project, record, home) as system:
            system.prepare()
            asyncio.run(_make_topics(system, project.participant))
            current_output().note(f"starting {project.participant}")
            system.start()
            published = _publish(system, project.workflows)
            _tell(system, project, published)
            while not ended.wait(_LOOK_EVERY_S):
                revive(system)
    finally:
        home.close()


def _system(project: Project, record: StackRecord, home: StackHome) -> System:
    own = ServiceKind(project.participant, project.module)
    relay = next(kind for kind in SERVICES if kind.name == "relay")
    path = {"PYTHONPATH": str((project.directory / "src").absolute())}
    return System(
        Servers.named(record.kafka, record.postgres),
        home.directory,
        name=DEV,
        settings={project.participant: path},
        kinds=(own, relay),
    )


async def _make_topics(system: System, participant: str) -> None:
    async with TopicAdmin(system.connection) as admin:
        await admin.ensure(system.topics.catalogue([participant], _PARTITIONS))


def _publish(system: System, workflows: Sequence[Path]) -> list[str]:
    published: list[str] = []
    for file in workflows:
        done = system.command("definitions", "publish", str(file), "--activate")
        if done.returncode != 0:
            raise Refused(
                "workflow_not_active",
                f"{file} cannot be started: {(done.stderr or done.stdout).strip()}",
            )
        published.append(done.stdout.strip())
    return published


def _tell(system: System, project: Project, published: list[str]) -> None:
    pids = {name: system.pid(name) for name in system.names}
    lines = [f"{name:<14} pid {pid}" for name, pid in pids.items()]
    lines += [*published, f"ready; logs in {system.directory}; Ctrl-C stops it"]
    document = {
        "participant": project.participant,
        "directory": str(system.directory),
        "services": pids,
        "workflows": published,
    }
    current_output().tell(document, "\n".join(lines))
