"""`sagabus definitions`: validate, publish and steer workflow definitions."""

from __future__ import annotations

import difflib
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from sagabus_bus import TopicAdmin
from sagabus_cli import UsageError, current_connection, current_output
from sagabus_core.definitions import Definition
from sagabus_expressions import CelConditions
from sagabus_messages.errors import MessageError
from sagabus_orchestrator.audit.trail import By
from sagabus_orchestrator.catalog import GLOBAL, DefinitionRef
from sagabus_orchestrator.commands.session import actor, with_database
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.flowcharts import flowchart
from sagabus_orchestrator.registry import Published, Registry, parse_document
from sagabus_store import Database

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Validate, publish and steer workflow definitions.")

File = Annotated[Path, typer.Argument(help="The definition, a JSON file.")]
Workflow = Annotated[str, typer.Argument(help="Name of the workflow.")]
Version = Annotated[int, typer.Argument(help="Version of the definition.", min=1)]
Tenant = Annotated[str, typer.Option("--tenant", help="Owner; none: the global definition.")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as cause:
        raise UsageError("unreadable_file", f"cannot read {path}: {cause.strerror}") from cause


def _registry(database: Database) -> Registry:
    return Registry(database, CelConditions(), current_connection().topics)


def _describe(published: Published) -> dict[str, object]:
    ref = published.ref
    return {
        "workflow": ref.workflow,
        "version": ref.version,
        "tenant": ref.scope or None,
        "state": published.state.value,
        "digest": published.digest,
    }


def _tell(published: Published) -> None:
    ref = published.ref
    owner = f" of tenant {ref.scope}" if ref.scope else ""
    current_output().tell(
        _describe(published),
        f"{ref.workflow} {ref.version}{owner} is {published.state} ({published.digest[:12]})",
    )


@app.command()
def validate(file: File) -> None:
    """Check a definition without any server; every problem is named at once.

    Exit code 2 if the file is no definition: unreadable, no strict JSON, too large, or unsafe.
    """
    definition = _parsed(_read(file))
    participants = sorted(definition.participants)
    current_output().tell(
        {
            "valid": True,
            "workflow": definition.workflow,
            "version": definition.version,
            "digest": definition.digest,
            "participants": participants,
        },
        f"{definition.workflow} {definition.version} is valid ({definition.digest[:12]}), "
        f"participants: {', '.join(participants)}",
    )


@app.command()
def publish(
    file: File,
    reason: Why = "",
    *,
    activate_it: Annotated[
        bool, typer.Option("--activate", help="Activate it too; its topics must exist.")
    ] = False,
) -> None:
    """Publish a definition as a draft. The same content again changes nothing."""
    raw = _read(file)
    _parsed(raw)

    async def work(database: Database) -> Published:
        registry = _registry(database)
        by = By(actor(), reason)
        published = await registry.publish(raw, by)
        if activate_it:
            published = await registry.activate(published.ref, _missing_topics, by)
        return published

    _tell(with_database(work))


@app.command()
def activate(
    workflow: Workflow, version: Version, tenant: Tenant = GLOBAL, reason: Why = ""
) -> None:
    """Let starts use a version; refused until the topics of its participants exist."""
    ref, by = DefinitionRef(tenant, workflow, version), By(actor(), reason)
    _steer(lambda registry: registry.activate(ref, _missing_topics, by))


@app.command()
def deprecate(
    workflow: Workflow, version: Version, tenant: Tenant = GLOBAL, reason: Why = ""
) -> None:
    """Let only those starts use a version that name it."""
    ref, by = DefinitionRef(tenant, workflow, version), By(actor(), reason)
    _steer(lambda registry: registry.deprecate(ref, by))


@app.command()
def retire(workflow: Workflow, version: Version, tenant: Tenant = GLOBAL, reason: Why = "") -> None:
    """Let no start use a version; refused while instances run on it."""
    ref, by = DefinitionRef(tenant, workflow, version), By(actor(), reason)
    _steer(lambda registry: registry.retire(ref, by))


@app.command("list")
def list_all() -> None:
    """List everything that was published."""
    found = with_database(lambda database: _registry(database).list())
    current_output().table(
        {"definitions": [_describe(published) for published in found]},
        ("workflow", "version", "tenant", "state", "digest"),
        [
            (p.ref.workflow, str(p.ref.version), p.ref.scope or "-", p.state.value, p.digest[:12])
            for p in found
        ],
    )


@app.command()
def show(workflow: Workflow, version: Version, tenant: Tenant = GLOBAL) -> None:
    """Print a published definition."""
    published = _fetch(DefinitionRef(tenant, workflow, version))
    document = json.loads(published.document)
    current_output().tell(
        {**_describe(published), "document": document}, json.dumps(document, indent=2)
    )


@app.command()
def diff(
    workflow: Workflow,
    version: Version,
    other: Annotated[int, typer.Argument(help="The version to compare with.", min=1)],
    tenant: Tenant = GLOBAL,
) -> None:
    """Show what changed from one published version to another."""
    refs = (DefinitionRef(tenant, workflow, version), DefinitionRef(tenant, workflow, other))
    before, after = (_pretty(_fetch(ref)) for ref in refs)
    names = (f"{workflow} {version}", f"{workflow} {other}")
    lines = list(difflib.unified_diff(before, after, *names, lineterm=""))
    text = "\n".join(lines) or "no difference"
    current_output().tell({"from": version, "to": other, "diff": lines}, text)


@app.command()
def graph(file: File) -> None:
    """Draw the flow of a definition file as a Mermaid flowchart."""
    definition = _parsed(_read(file))
    drawn = flowchart(definition)
    current_output().tell({"workflow": definition.workflow, "mermaid": drawn}, drawn)


def _parsed(raw: bytes) -> Definition:
    try:
        return parse_document(raw, CelConditions())
    except (MessageError, Refused) as error:  # whatever is wrong with a file is wrong usage
        raise UsageError(error.code, error.detail) from error


def _pretty(published: Published) -> Sequence[str]:
    return json.dumps(json.loads(published.document), indent=2, sort_keys=True).splitlines()


def _fetch(ref: DefinitionRef) -> Published:
    return with_database(lambda database: _registry(database).get(ref))


def _steer(change: Callable[[Registry], Awaitable[Published]]) -> None:
    _tell(with_database(lambda database: change(_registry(database))))


async def _missing_topics(names: Iterable[str]) -> Iterable[str]:
    wanted = list(names)
    async with TopicAdmin(current_connection().bus) as admin:
        present = await admin.partition_counts(wanted)
    return [name for name in wanted if name not in present]
