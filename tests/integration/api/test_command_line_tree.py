"""The whole tree of commands: each goes both ways with one kind of document, or says why not."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.integration.orchestrator.support import Rig, commands, order, patient_order
from tests.integration.orchestrator.test_dead_letters import id_of, keep, letter

from sagabus_cli import app
from sagabus_core.vocabulary import ResultStatus

from .lines import REFUSED, WHY, Line, once

BULK = ("pause", "--where", "workflow=order", "--max", "10")
READ: Mapping[str, tuple[str, ...]] = {
    "audit facts": (),
    "audit list": (),
    "bulk list": (),
    "bulk preview": BULK,
    "bulk refusals": ("{bulk}",),
    "bulk show": ("{bulk}",),
    "definitions diff": ("order", "1", "7"),
    "definitions list": (),
    "definitions show": ("order", "1"),
    "dlt list": (),
    "dlt show": ("{letter-api}",),
    "hold list": (),
    "keys list": (),
    "list": (),
    "quotas list": (),
    "quotas show": ("acme",),
    "show": ("api-1",),
    "why": ("api-1",),
}
"""What reads: asked both ways for the same things, it says the same."""

CHANGE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "bulk start": ((*BULK, *WHY, "--operation-id", "{way}"),),
    "bulk pause": (("{bulk-of-way}", *WHY),),
    "bulk resume": (("{bulk-of-way}", *WHY),),
    "bulk cancel": (("{bulk-of-way}", *WHY),),
    "hold set": (("participant", "{way}", *WHY, "--tenant", "acme"),),
    "hold release": (("participant", "{way}", *WHY, "--tenant", "acme"),),
    "keys create": (("{way}", "--grant", "viewer", "--grant", "dlt:redrive", "--tenant", "acme"),),
    "keys revoke": (("{way}", *WHY),),
    "quotas set": (("{way}", "--running", "3", "--starts", "4", *WHY),),
    "quotas remove": (("{way}", "starts", *WHY),),
    "pause": (("{way}-1", *WHY, "--dry-run"), ("{way}-1", *WHY)),
    "resume": (("{way}-1", *WHY),),
    "retry": (("{way}-2", *WHY),),
    "record-outcome": (
        ("{way}-3", *WHY, "--attest", "reserve=SUCCEEDED", "--evidence", "seen", "--dry-run"),
    ),
    "cancel": (("{way}-1", *WHY),),
    "close": (("{way}-3", *WHY, "--dry-run"),),
    "definitions publish": (("{folder}/{way}.json",),),
    "definitions activate": (("{way}", "1"),),
    "definitions deprecate": (("{way}", "1"),),
    "definitions retire": (("{way}", "1"),),
    "dlt redrive": (("{letter-of-way}", *WHY, "--dry-run"),),
    "dlt discard": (("{letter-of-way}", *WHY),),
}
"""What changes: each way does it to things of its own, in this order."""

BESIDE: Mapping[str, str] = {
    "archive drop-journal": "maintenance of the database",
    "archive run": "maintenance of the database",
    "audit verify": "compares database and Kafka, also when no API can be trusted",
    "check-stack": "the local stack",
    "conformance": "speaks to a participant over Kafka",
    "definitions graph": "reads a file",
    "definitions validate": "reads a file",
    "demo": "brings its own system",
    "doctor": "looks at every database and Kafka, also when no API runs",
    "down": "the local stack",
    "join": "the local stack",
    "new participant": "writes files",
    "parked discard": "of the outboxes of all services",
    "parked list": "of the outboxes of all services",
    "parked redrive": "of the outboxes of all services",
    "parked show": "of the outboxes of all services",
    "recovery discard": "of a restored database",
    "recovery list": "of a restored database",
    "run": "starts over Kafka",
    "services": "the local stack",
    "start": "through the API or over Kafka: test_command_line.py",
    "topics ensure": "Kafka",
    "up": "the local stack",
}
"""What does not go through the API, and why."""

VOLATILE = re.compile(
    r".*_at$|.*_by$|id|actor|key|cursor|next_cursor|text|operation_id|digest|kafka_problem|place"
)


def leaves(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    """Yield every command of the tree with its words."""
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        yield from leaves(command.get_command(None, name), *path, name)


def tree() -> dict[str, Any]:
    return dict(leaves(typer.main.get_command(app.build())))


def test_every_command_goes_both_ways_or_says_why_not() -> None:
    assert {*READ, *CHANGE, *BESIDE} == set(tree())


def test_every_command_offers_json_and_no_completion_of_its_own() -> None:
    for words, command in tree().items():
        named = {option for param in command.params for option in param.opts}
        assert "--json" in named, words
        assert "--install-completion" not in named, words


def test_what_stays_beside_the_database_says_so() -> None:
    told = tree()
    for words in BESIDE:
        if words.split()[0] in {"archive", "doctor", "parked", "recovery"} or "verify" in words:
            group = typer.main.get_command(app.build()).get_command(None, words.split()[0])  # type: ignore[attr-defined]  # a group
            said = f"{group.help} {told[words].help}"
            assert "not through the API" in said, words


async def test_both_ways_have_one_document(
    rig: Rig, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGABUS_MANUAL_CLOSE_ENABLED", "true")
    names = await _world(rig, line, tmp_path)
    for words, arguments in READ.items():
        asked = [*words.split(), *(each.format(**names) for each in arguments)]
        direct = _shape(await once(line, "direct", *asked), names)
        assert _shape(await once(line, "api", *asked), names) == direct, words
    for words, lines in CHANGE.items():
        for arguments in lines:
            said = {}
            for way in ("direct", "api"):
                own = {**names, "way": way}
                own |= {"bulk-of-way": names.get(f"bulk-{way}", ""), "folder": str(tmp_path)}
                own["letter-of-way"] = names[f"letter-{way}"]
                asked = [*words.split(), *(each.format(**own) for each in arguments)]
                refused = REFUSED if words == "dlt redrive" else 0
                # On the database it asks Kafka for the topics: test_commands.py of orchestrator.
                through = "api" if words == "definitions activate" else way
                document = await once(line, through, *asked, code=refused)
                if words == "bulk start":
                    names[f"bulk-{way}"] = document["id"]
                said[way] = _shape(document, own)
            assert said["api"] == said["direct"], words


async def _world(rig: Rig, line: Line, folder: Path) -> dict[str, str]:
    """Make things of every kind, for each way its own, and return their names."""
    names = {}
    await rig.publish(patient_order(7))
    for place, way in enumerate(("direct", "api")):
        await rig.process(rig.start_record(f"{way}-1"))
        for number in (2, 3):
            sent = await rig.process(rig.start_record(f"{way}-{number}"))
            await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))
        sent = await rig.process(rig.start_record(f"{way}-4"))
        forged = rig.result_record(commands(sent)[0], participant="payment")
        await keep(rig, letter(forged), offset=place)
        names[f"letter-{way}"] = id_of(forged)
        (folder / f"{way}.json").write_text(json.dumps(order(workflow=way)))
        await once(line, "direct", "quotas", "set", "acme", "--running", "9", "--starts", "9")
    begun = await once(line, "direct", "bulk", "start", *BULK, *WHY, "--operation-id", "world")
    await once(line, "direct", "hold", "set", "workflow", "nobodys", *WHY)
    await once(line, "direct", "keys", "create", "shop", "--grant", "viewer", "--tenant", "acme")
    return {**names, "bulk": begun["id"]}


def _shape(document: Any, names: Mapping[str, str]) -> Any:
    """Return a document without what differs from call to call: times, ids, who asked."""
    text = json.dumps(document)
    for name in sorted(filter(None, names.values()), key=len, reverse=True):
        text = text.replace(name, "IT")
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
    return _plain(json.loads(text))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: type(each).__name__ if VOLATILE.fullmatch(name) else _plain(each)
                for name, each in value.items()
            }
        case list():
            return list(map(_plain, value))
        case _:
            return value
