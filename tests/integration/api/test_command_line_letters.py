"""Dead letters by the command line: the same through the API and on the database."""

from pathlib import Path

import pytest
from tests.integration.orchestrator.support import Rig, commands
from tests.integration.orchestrator.test_dead_letters import id_of, keep, letter

from sagabus_messages import Record

from .lines import NOT_PERMITTED, REFUSED, USAGE, WHY, Line, both, once


async def dead_results(rig: Rig) -> list[Record]:
    """Keep letters of an answer by the wrong participant, of two sagas of two tenants."""
    starts = (rig.start_record("A"), rig.start_record("B", tenant="globex"))
    forged = [
        rig.result_record(command, participant="payment")
        for command in commands(await rig.process(*starts))
    ]
    for record in forged:
        await keep(rig, letter(record), offset=record.offset)
    return forged


async def test_letters_are_read_the_same_both_ways(rig: Rig, line: Line) -> None:
    forged = await dead_results(rig)
    page = await both(line, "dlt", "list")
    assert {each["id"] for each in page["dead_letters"]} == {id_of(each) for each in forged}
    assert {each["tenant"] for each in page["dead_letters"]} == {"acme", "globex"}
    first = await both(line, "dlt", "list", "--limit", "1")
    rest = await both(line, "dlt", "list", "--cursor", first["next_cursor"])
    assert first["dead_letters"] + rest["dead_letters"] == page["dead_letters"]
    (own,) = (await both(line, "dlt", "list", "--where", "tenant=acme"))["dead_letters"]
    assert own["saga_id"] == rig.saga("A")
    by_saga = await both(line, "dlt", "list", "--where", f"saga={rig.saga('A')}")
    assert by_saga["dead_letters"] == [own]
    assert (await both(line, "dlt", "list", "--state", "discarded"))["dead_letters"] == []
    shown = await both(line, "dlt", "show", own["id"])
    place = f"{own['topic']}/{own['partition']}/{own['offset']}"
    assert await both(line, "dlt", "show", place) == shown
    assert dict(shown["headers"])["ce_id"] != ""
    for name in ("no-place", "a/0/1"):
        said = await both(line, "dlt", "show", name, code=REFUSED)
        assert said["error"]["code"] == "not_found"
    said = await both(line, "dlt", "list", "--cursor", "!", code=USAGE)
    assert said["error"]["code"] == "invalid_cursor"


@pytest.mark.parametrize("way", ["direct", "api"])
async def test_letters_are_handled_the_same_both_ways(
    rig: Rig, line: Line, way: str, tmp_path: Path
) -> None:
    first, second = map(id_of, await dead_results(rig))
    said = await once(line, way, "dlt", "redrive", first, *WHY, code=REFUSED)
    assert said["error"]["code"] == "still_refused"
    told = await once(line, way, "dlt", "redrive", first, second, *WHY, code=REFUSED)
    assert {each["code"] for each in told["dead_letters"]} == {"still_refused"}
    file = tmp_path / "edit.json"
    file.write_text("{}")
    edited = await once(line, way, "dlt", "redrive", first, *WHY, "--edit", str(file), code=REFUSED)
    assert edited["error"]["code"] != "usage"
    dry = await once(line, way, "dlt", "discard", first, *WHY, "--dry-run")
    assert (dry["dry_run"], dry["dead_letters"][0]["repeated"]) == (True, False)
    words = ("dlt", "discard", "--where", "tenant=acme", *WHY, "--operation-id", "d1")
    done = await once(line, way, *words)
    assert [each["id"] for each in done["dead_letters"]] == [first]
    assert (await once(line, way, *words))["dead_letters"] == []
    again = await once(line, way, "dlt", "discard", first, *WHY, "--operation-id", "d1")
    assert again["dead_letters"][0]["repeated"] is True
    closed = await once(line, way, "dlt", "discard", first, *WHY, code=REFUSED)
    assert closed["error"]["code"] == "dead_letter_closed"
    (deed,) = (await both(line, "dlt", "show", first))["history"]
    assert (deed["actor"] == "key:admin") is (way == "api")
    left = await both(line, "dlt", "list")
    assert [each["id"] for each in left["dead_letters"]] == [second]


async def test_letters_of_others_look_absent(rig: Rig, line: Line) -> None:
    first, second = map(id_of, await dead_results(rig))
    page = await once(line, "api", "dlt", "list", who="acme")
    assert [each["id"] for each in page["dead_letters"]] == [first]
    asked = ("dlt", "list", "--where", "tenant=globex")
    assert (await once(line, "api", *asked, who="acme"))["dead_letters"] == []
    for words in (("show", second), ("discard", second, *WHY)):
        said = await once(line, "api", "dlt", *words, who="acme", code=REFUSED)
        assert said["error"]["code"] == "not_found"
    said = await once(line, "api", "dlt", "discard", first, *WHY, who="viewer", code=NOT_PERMITTED)
    assert said["error"]["code"] == "permission_denied"
