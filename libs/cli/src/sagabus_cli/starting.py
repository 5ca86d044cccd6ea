"""Commands that start sagas and wait for them: `start`, `run`, `topics`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from sagabus_bus import TopicAdmin
from sagabus_cli.address import ApiAddress
from sagabus_cli.connection import current_connection
from sagabus_cli.errors import FailedOutcome, NotReachable, Refused
from sagabus_cli.inputs import read_lines, read_payload
from sagabus_cli.output import current_output
from sagabus_cli.running import Summary, run_all
from sagabus_client import (
    ApiRefused,
    ApiUnreachable,
    HttpClient,
    Outcome,
    SagabusClient,
    SagaHandle,
    StartCommand,
)
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import json_value

__all__ = ["run_app", "start_app", "topics_app"]

start_app, run_app = typer.Typer(), typer.Typer()

_REFUSALS = {
    "definition_unknown": "no such workflow is published (`sagabus definitions list`)",
    "definition_inactive": "no version of this workflow is active (`sagabus definitions list`)",
    "payload_contract_mismatch": "the payload is not what the workflow's input declares",
    "request_conflict": "this key was used before with other content (`sagabus show`)",
}

Tenant = Annotated[str, typer.Option(help="Tenant that the saga belongs to.")]
Schema = Annotated[
    str | None, typer.Option("--schema", help="Schema id of the payload; else WORKFLOW.v1.")
]
topics_app = typer.Typer(no_args_is_help=True, help="Kafka topics of sagabus.")


@start_app.command()
def start(
    workflow: Annotated[str, typer.Argument(help="Name of the workflow.")],
    key: Annotated[str, typer.Option(help="Business key: one saga per key, for ever.")],
    payload: Annotated[Path | None, typer.Option(help="JSON file with the payload.")] = None,
    tenant: Tenant = "default",
    schema: Schema = None,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the outcome.")] = False,
) -> None:
    """Start a saga and say what became of the request.

    Through the API where one is known, else by a record on the start topic.

    The same request again changes nothing and is answered with the present status.
    """
    body = read_payload(payload, schema or f"{workflow}.v1") if payload is not None else None
    command = StartCommand(tenant, workflow, key, body)
    handle, outcome = asyncio.run(_start(command, wait=wait))
    if outcome is not None and outcome.is_refused:
        code = outcome.reason_code or "start_refused"
        why = _REFUSALS.get(code, "the orchestrator refused it")
        raise Refused(code, f"nothing was started for {key}: {why}")
    _tell(handle, outcome)
    if wait and outcome is not None and not _is_good(outcome):
        raise typer.Exit(FailedOutcome.exit_code)


@run_app.command()
def run(
    file: Annotated[
        Path, typer.Argument(help='JSON lines: {"workflow": ..., "key": ..., "payload": {...}}.')
    ],
    workflow: Annotated[
        str | None, typer.Option(help="The workflow of lines that name none.")
    ] = None,
    tenant: Tenant = "default",
    schema: Schema = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds to wait for all outcomes.")
    ] = 600.0,
) -> None:
    """Start one saga per line, wait for all outcomes, and sum up.

    Exit code 0 only if every saga ended COMPLETED or COMPENSATED.
    """
    lines = read_lines(file, workflow, schema)
    commands = [StartCommand(tenant, line.workflow, line.key, line.payload) for line in lines]
    summary = asyncio.run(run_all(commands, timeout_s))
    current_output().table(
        summary.document(), ("outcome", "sagas", "p50", "p99", "longest"), summary.rows()
    )
    _note_bad(summary)
    if not summary.is_good:
        raise typer.Exit(FailedOutcome.exit_code)


@topics_app.callback()
def _topics() -> None:
    """Keep `ensure` a sub-command."""


@topics_app.command("ensure")
def ensure(
    participants: Annotated[list[str], typer.Argument(help="Names of the participants.")],
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of new topics.")] = 12,
) -> None:
    """Create the topics of sagabus and of these participants, as far as they are missing."""
    connection = current_connection()

    async def work() -> list[tuple[str, int, bool]]:
        async with TopicAdmin(connection.bus) as admin:
            specs = connection.topics.catalogue(participants, partitions)
            return [(t.name, t.partitions, t.created) for t in await admin.ensure(specs)]

    made = asyncio.run(work())
    current_output().table(
        {"topics": [{"name": n, "partitions": p, "created": c} for n, p, c in made]},
        ("topic", "partitions", ""),
        [(name, str(count), "created" if new else "was there") for name, count, new in made],
    )


async def _start(command: StartCommand, *, wait: bool) -> tuple[SagaHandle, Outcome | None]:
    connection = current_connection()
    address = connection.api
    if address is not None:
        return await _start_through(address, command, wait=wait)
    async with SagabusClient(connection.bus, connection.topics, name="cli") as client:
        handle = await client.start(command)
        if wait:
            return handle, await client.wait(handle)
        # The orchestrator's first word says whether the request was taken or refused.
        return handle, await client.first_news(handle, timeout_s=15.0)


async def _start_through(
    address: ApiAddress, command: StartCommand, *, wait: bool
) -> tuple[SagaHandle, Outcome | None]:
    try:
        async with HttpClient(address.url, api_key=address.key, token=address.token) as http:
            handle = await http.start(command)
            return handle, await (http.wait(handle) if wait else http.get(handle))
    except ApiUnreachable as error:
        raise NotReachable(error.code, address.unreachable(error.detail)) from error
    except ApiRefused as error:
        raise ApiRefused(error.code, address.explained(error.code, error.detail)) from error


def _is_good(outcome: Outcome) -> bool:
    return outcome.status in {SagaStatus.COMPLETED, SagaStatus.COMPENSATED}


def _tell(handle: SagaHandle, outcome: Outcome | None) -> None:
    status = str(outcome.status) if outcome is not None else None
    reason = f" ({outcome.reason_code})" if outcome is not None and outcome.reason_code else ""
    result = json_value(outcome.output) if outcome is not None and outcome.output else None
    document = {
        "saga_id": handle.saga_id,
        "business_key": handle.business_key,
        "start_id": handle.start_id,
        "status": status,
        "reason_code": outcome.reason_code if outcome is not None else None,
        "output": result,
    }
    said = f"{status}{reason}" if status else "sent; the orchestrator has not answered yet"
    text = f"{handle.business_key}: {said}\n  saga {handle.saga_id}"
    current_output().tell(document, text)


def _note_bad(summary: Summary) -> None:
    shown = 10
    for text in summary.bad[:shown]:
        current_output().note(text)
    if len(summary.bad) > shown:
        current_output().note(f"... and {len(summary.bad) - shown} more")
