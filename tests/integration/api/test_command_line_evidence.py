"""Evidence and limits by the command line: the same through the API and on the database."""

import pytest
from tests.integration.orchestrator.support import Rig

from .lines import NOT_PERMITTED, REFUSED, UNREACHABLE, USAGE, WHY, Line, both, once


async def test_audit_and_journal_say_the_same_both_ways(rig: Rig, line: Line) -> None:
    await rig.process(rig.start_record())
    await once(line, "api", "pause", "ORD-1", *WHY)
    await once(line, "api", "pause", "ORD-1", *WHY, code=REFUSED)
    mine = ("audit", "list", "--where", f"saga={rig.saga('ORD-1')}")
    page = await both(line, *mine)
    told = [(row["kind"], row["outcome"], row["actor"]) for row in page["rows"]]
    assert told == [("saga:pause", "done", "key:admin"), ("saga:pause", "refused", "key:admin")]
    assert page["withheld"] == 0
    first = await both(line, *mine, "--limit", "1")
    assert first["more"] is True
    rest = await both(line, *mine, "--cursor", first["cursor"])
    assert first["rows"] + rest["rows"] == page["rows"]
    refused = await both(line, *mine, "--where", "outcome=refused", "--since", "2020-01-01")
    assert [row["code"] for row in refused["rows"]] == ["precondition_failed"]
    assert (await both(line, *mine, "--until", "2020-01-01"))["rows"] == []
    facts = await both(line, "audit", "facts", "--where", "tenant=acme", "--limit", "3")
    assert facts["rows"][0]["fact"]["kind"] == "started"
    assert (await both(line, "audit", "facts", "--where", "tenant=zoo"))["rows"] == []
    said = await both(line, "audit", "list", "--cursor", "!", code=USAGE)
    assert said["error"]["code"] == "invalid_cursor"


async def test_who_sees_some_tenants_sees_their_evidence_alone(rig: Rig, line: Line) -> None:
    await rig.process(rig.start_record())
    await once(line, "api", "pause", "ORD-1", *WHY)
    for words in (("audit", "list"), ("audit", "facts")):
        saga = ("--where", f"saga={rig.saga('ORD-1')}")
        assert (await once(line, "api", *words, *saga, who="acme"))["rows"] != []
        assert (await once(line, "api", *words, *saga, who="globex"))["rows"] == []
    assert (await once(line, "api", "audit", "list", who="acme"))["withheld"] is None
    said = await once(line, "api", "audit", "list", who="starter", code=NOT_PERMITTED)
    assert said["error"]["code"] == "permission_denied"


@pytest.mark.parametrize("way", ["direct", "api"])
async def test_limits_are_set_and_removed_both_ways(rig: Rig, line: Line, way: str) -> None:
    await rig.process(rig.start_record())
    words = ("--running", "5", "--starts", "9", "--window-s", "3600", "--reason", "season")
    said = await once(line, way, "quotas", "set", "acme", *words)
    told = [(each["action"], each["most"], each["used"]) for each in said["limits"]]
    assert told == [("running", 5, 1), ("start", 9, 0)]
    assert await both(line, "quotas", "show", "acme") == said
    said = await once(line, way, "quotas", "remove", "acme", "running", "--reason", "over")
    assert [each["action"] for each in said["limits"]] == ["start"]
    acts = ("audit", "list", "--where", "tenant=acme", "--where", "kind=quota:set")
    row = (await once(line, "direct", *acts))["rows"][-1]
    assert (row["reason"], row["detail"] != "") == ("over", True)
    assert (row["actor"] == "key:admin") is (way == "api")


async def test_limits_of_others_look_absent_and_own_ones_are_not_lifted(
    rig: Rig, line: Line
) -> None:
    del rig
    said = await once(line, "api", "quotas", "show", "acme", who="globex", code=REFUSED)
    assert said["error"]["code"] == "not_found"
    for tenant in ("acme", "globex"):
        for words in (("set", tenant, "--running", "9"), ("remove", tenant, "starts")):
            said = await once(line, "api", "quotas", *words, who="globex", code=NOT_PERMITTED)
            assert said["error"]["code"] == "permission_denied"


@pytest.mark.parametrize("words", [("doctor",), ("archive", "run"), ("audit", "verify", "--all")])
async def test_what_needs_the_database_says_so_where_only_an_api_is_named(
    rig: Rig, line: Line, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    del rig
    monkeypatch.delenv("SAGABUS_POSTGRES", raising=False)
    said = await once(line, "api", *words, code=UNREACHABLE)
    assert said["error"]["code"] == "no_postgres"
    assert "only an API is named" in said["error"]["detail"]
