"""The whole tree of commands: each goes both ways with one kind of document, or says why not."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from sagabus_cli import app

from .lines import WHY

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
    r".*_at$|.*_by$|id|actor|key|cursor|next_cursor|text|moved_by|operation_id|digest|resets_at"
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
