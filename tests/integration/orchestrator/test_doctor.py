"""`sagabus doctor` on real servers: a sound deployment, and each thing that is wrong with one."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_messages import Topics
from sagabus_orchestrator.doctor import Level
from sagabus_orchestrator.doctor.checks import (
    DAY_MS,
    judge_clock,
    judge_group,
    judge_retention,
    judge_role,
    judge_topics,
    judge_writer,
)
from sagabus_testkit.stack import Kafka

from .support import Rig

Shell = Callable[..., Awaitable[dict[str, Any]]]
FAILED = 1


def levels(said: dict[str, Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for check in said["checks"]:
        found.setdefault(check["name"], set()).add(check["level"])
        assert (check["level"] == "ok") or check["mend"], check
    return found


async def test_doctor_names_each_thing_that_is_wrong_and_what_to_do(
    rig: Rig, shell: Shell, kafka: Kafka, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def doctor(*words: str) -> dict[str, Any]:
        bus = ("--kafka", kafka.bootstrap, "--topic-prefix", f"{topic_prefix}.")
        return await shell("doctor", *bus, *words, code=FAILED)

    monkeypatch.delenv("SAGABUS_OUTBOXES", raising=False)
    topics = Topics(f"{topic_prefix}.")
    owners = ["inventory", "payment", "shipping"]
    async with TopicAdmin(KafkaConnection(kafka.bootstrap, "test")) as admin:
        await admin.ensure(topics.catalogue(owners, 2))
    await rig.run(
        "update upkeep_job set due_at = now(), report = '{\"checked\": 7}'"
        " where name = 'reconciler'"
    )
    found = levels(await doctor())
    sound = {"migrations", "definitions", "partitions", "clock", "outbox", "parked", "stuck"}
    sound |= {"repaired", "reconciler", "topics", "held", "retention"}
    assert found["databases"] == {"warn"}  # nobody named those of the other services
    assert {name for name in sound if found.get(name) != {"ok"}} == set(), found
    assert found["role"] == {"warn"}  # the tests are a superuser
    assert found["group"] == {"fail"}  # nobody reads
    monkeypatch.setenv("SAGABUS_TIMER_GROUP", "clock")
    said = await doctor("--group", "payment=till")
    groups = " ".join(c["detail"] for c in said["checks"] if c["name"] == "group")
    for group in (f"{topic_prefix}.sagabus-orchestrator", f"{topic_prefix}.clock", "till"):
        assert group in groups
    assert "sagabus.payment.v1" not in groups
    assert "sagabus-timer" not in groups
    monkeypatch.setenv(
        "SAGABUS_OUTBOXES", '[{"name": "pay", "dsn": "postgresql://x@127.0.0.1:1/x"}]'
    )
    found = levels(await doctor())
    assert found["postgres"] == {"fail"}  # the list that the relay reads is read here as well
    assert "databases" not in found
    monkeypatch.delenv("SAGABUS_OUTBOXES")

    await rig.process(rig.start_record())
    await rig.run("update outbox set created_at = created_at - interval '1 hour'")
    await rig.run(
        "insert into outbox_parked (id, shard, topic, key, headers, value, created_at, reason)"
        " values (1, 0, 'nowhere', null, '', null, now(), 'record_too_large')"
    )
    await rig.run(
        "insert into reconciler_finding values"
        " (gen_random_uuid(), 'unreadable', '', 1, now(), now(), null)"
    )
    await rig.run("update upkeep_job set due_at = now() - interval '1 hour'")
    await rig.run("update definition set digest = 'other'")
    away = ("--database", "timer=postgresql://x@127.0.0.1:1/x", "--role", "nobody-of-that-name")
    try:
        found = levels(await doctor("--inbox-days", "21", *away))
    finally:  # the next rig would rightly refuse to begin on this database
        await rig.wipe()
        await rig.run("delete from outbox_parked")
    assert found["role"] == {"fail"}
    wrong = {"outbox", "parked", "stuck", "reconciler", "definitions", "held", "retention"}
    assert {name for name in wrong if "fail" not in found[name]} == set()
    assert found["postgres"] == {"fail"}


async def test_doctor_speaks_without_servers(shell: Shell) -> None:
    away = ("--kafka", "127.0.0.1:1", "--postgres", "postgresql://x@127.0.0.1:1/x")
    found = levels(await shell("doctor", *away, code=FAILED))
    assert found == {"postgres": {"fail"}, "kafka": {"fail"}, "databases": {"warn"}}


def test_judgements_have_edges() -> None:
    assert judge_clock("x", 999).level is Level.OK
    assert judge_clock("x", -1_000).level is Level.WARN
    assert judge_clock("x", 60_000).level is Level.FAIL
    kept = {"a": 7 * DAY_MS, "a.dlt": 14 * DAY_MS}
    assert judge_retention(kept, 22).level is Level.OK
    assert judge_retention(kept, 21).level is Level.FAIL
    assert judge_retention({"a": -1}, 365).level is Level.FAIL
    assert judge_topics({"a": 3, "b": 3}, ["a", "b"]).level is Level.OK
    assert judge_topics({"a": 3, "b": 4}, ["a", "b"]).level is Level.WARN
    assert judge_topics({"a": 3}, ["a", "b"]).level is Level.FAIL
    assert judge_group("g", 0, 0).level is Level.FAIL
    assert judge_group("g", 1, 10_000).level is Level.WARN
    rights = {"may_send": True, "superuser": False, "edits_journal": False}
    assert judge_role("r", rights).level is Level.OK
    assert judge_role("r", {**rights, "may_send": False}).level is Level.FAIL
    assert judge_role("r", {**rights, "edits_journal": True}).level is Level.WARN


@pytest.mark.parametrize(
    ("age_ms", "level"), [(None, Level.OK), (59_999, Level.OK), (60_000, Level.WARN)]
)
def test_a_transaction_that_writes_and_does_not_end_is_told(age_ms: int, level: Level) -> None:
    assert judge_writer(7, "psql", age_ms).level is level
