"""`sagabus conformance`: check a running participant, whatever it is written in."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import typer

from sagabus_cli import FailedOutcome, UsageError, current_connection, current_output
from sagabus_conformance.hooks import CommandKiller, CommandProbe
from sagabus_conformance.options import Options, with_options
from sagabus_conformance.profile import Profile, Template, profile_of_definition
from sagabus_conformance.suite import Plan, run_suite

__all__ = ["app"]

app = typer.Typer()


@app.command()
@with_options
def conformance(options: Options) -> None:
    """Check a running participant against every guarantee that the wire can show.

    Sends commands of its own sagas to the participant's command topic and reads its answers.
    What the step can do is told by --definition, or by the switches. Exit code 0: nothing is
    broken; 1: something is, with the evidence.
    """
    kills = options.pid_file is not None or options.kill_command is not None
    plan = Plan(
        profile=_profile(options),
        effects=CommandProbe(options.effects_command) if options.effects_command else None,
        killer=CommandKiller(options.pid_file, options.kill_command, options.restart_command)
        if kills
        else None,
        within_s=options.within,
        recovery_s=options.recovery,
        batch=options.batch,
        kills=options.kills,
    )
    connection, output = current_connection(), current_output()
    report = asyncio.run(run_suite(connection.bus, connection.topics, plan))
    output.tell(report.document(), report.text())
    if report.broken:
        raise typer.Exit(FailedOutcome.exit_code)


def _profile(options: Options) -> Profile:
    profile = Profile(
        participant=options.participant,
        step=options.step,
        accepted=_template(options.payload),
        schema_id=options.schema or f"{options.participant}.{options.step}.v1",
        rejected=_template(options.rejected_payload) if options.rejected_payload else None,
        unknown=_template(options.unknown_payload) if options.unknown_payload else None,
        invalid=_template(options.invalid_payload) if options.invalid_payload else None,
        cancellable=options.cancellable,
        compensatable=options.compensatable,
        retriable=options.retriable,
        unknown_allowed=options.unknown_allowed,
        rejects_invalid_payload=options.rejects_invalid,
        tenant=options.tenant,
    )
    if options.definition is None:
        return profile
    declared = profile_of_definition(profile, _bytes(options.definition))
    return replace(declared, schema_id=options.schema or declared.schema_id)


def _template(path: Path) -> Template:
    return Template(_bytes(path)).checked(str(path))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as cause:
        raise UsageError("unreadable_file", f"cannot read {path}: {cause.strerror}") from cause
