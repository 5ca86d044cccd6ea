"""`sagabus definitions`: validate, publish and steer workflow definitions."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sagabus_cli import UsageError, current_output
from sagabus_core.definitions import Definition
from sagabus_expressions import CelConditions
from sagabus_messages.errors import MessageError
from sagabus_orchestrator.catalog import GLOBAL, DefinitionRef
from sagabus_orchestrator.commands.office import Document, Steering, open_office
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.flowcharts import flowchart
from sagabus_orchestrator.registry import parse_document

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


def _tell(published: Document) -> None:
    owner = f" of tenant {published['tenant']}" if published["tenant"] else ""
    current_output().tell(
        published,
        f"{published['workflow']} {published['version']}{owner} is {published['state']} "
        f"({published['digest'][:12]})",
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

    with open_office() as office:
        published = office.publish(raw, reason)
        if activate_it:
            published = office.steer("activate", _ref(published), reason)
    _tell(published)


@app.command()
def activate(
    workflow: Workflow, version: Version, tenant: Tenant = GLOBAL, reason: Why = ""
) -> None:
    """Let starts use a version; refused until the topics of its participants exist."""
    _steer("activate", DefinitionRef(tenant, workflow, version), reason)


@app.command()
def deprecate(
    workflow: Workflow, version: Version, tenant: Tenant = GLOBAL, reason: Why = ""
) -> None:
    """Let only those starts use a version that name it."""
    _steer("deprecate", DefinitionRef(tenant, workflow, version), reason)


@app.command()
def retire(workflow: Workflow, version: Version, tenant: Tenant = GLOBAL, reason: Why = "") -> None:
    """Let no start use a version; refused while instances run on it."""
    _steer("retire", DefinitionRef(tenant, workflow, version), reason)


@app.command("list")
def list_all() -> None:
    """List everything that was published."""
    with open_office() as office:
        found = office.definitions()
    current_output().table(
        found,
        ("workflow", "version", "tenant", "state", "digest"),
        [
            (d["workflow"], str(d["version"]), d["tenant"] or "-", d["state"], d["digest"][:12])
            for d in found["definitions"]
        ],
        empty="nothing is published (sagabus definitions publish FILE)",
    )


@app.command()
def show(workflow: Workflow, version: Version, tenant: Tenant = GLOBAL) -> None:
    """Print a published definition."""
    with open_office() as office:
        found = office.definition(DefinitionRef(tenant, workflow, version))
    current_output().tell(found, json.dumps(found["document"], indent=2))


@app.command()
def diff(
    workflow: Workflow,
    version: Version,
    other: Annotated[int, typer.Argument(help="The version to compare with.", min=1)],
    tenant: Tenant = GLOBAL,
) -> None:
    """Show what changed from one published version to another."""
    refs = (DefinitionRef(tenant, workflow, version), DefinitionRef(tenant, workflow, other))
    with open_office() as office:
        before, after = (_pretty(office.definition(ref)) for ref in refs)
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


def _pretty(published: Document) -> Sequence[str]:
    return json.dumps(published["document"], indent=2, sort_keys=True).splitlines()


def _steer(verb: Steering, ref: DefinitionRef, reason: str) -> None:
    with open_office() as office:
        _tell(office.steer(verb, ref, reason))


def _ref(published: Document) -> DefinitionRef:
    return DefinitionRef(published["tenant"] or GLOBAL, published["workflow"], published["version"])
