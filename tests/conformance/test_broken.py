"""Deliberately broken participants: the suite finds each fault under the right name."""

import asyncio
import dataclasses
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_cli.app import run
from sagabus_conformance import Guarantee, Lab, Plan, Profile, Report, Template, Verdict, examine
from sagabus_messages import Topics
from sagabus_testkit import LocalStack
from sagabus_testkit.stack.process import ProcessControl, ServerCommand

from .support import Killing

G = Guarantee
BROKEN = Path(__file__).parent / "broken"
LABS = 4
"""Readers that the faulty steps share: one each would only compete for two cores."""

FAULTS: dict[str, set[Guarantee]] = {
    "sound": set(),
    "runs-twice": {G.ONE_EFFECT},
    "runs-twice-quietly": {G.ONE_EFFECT},
    "ignores-fence": {G.CANCEL_FENCES, G.RESOLVE_FENCES},
    "resolve-does-not-fence": {G.RESOLVE_FENCES},
    "wrong-attempt": {G.NAMED},
    "wrong-target": {G.NAMED},
    "forges-ids": {G.WELL_FORMED},
    "compensates-nothing": {G.UNDO_ONLY_SUCCESS},
    "undoes-twice": {G.UNDO_ONCE},
    "lies-about-undo": {G.UNDO_RESOLVED},
    "runs-expired": {G.EXPIRED},
    "takes-any-payload": {G.PAYLOAD},
    "forgets-halt": {G.HALTED},
    "takes-forgeries": {G.FORGERIES},
    "drops-forgeries": {G.DEAD_LETTERED},
    "new-time-each-time": {G.SAME_EVENT},
    "loses-trace": {G.TRACED},
    "strict-members": {G.LENIENT},
    "keys-by-saga": {G.APART},
    "silent-cancel": {G.ANSWERED},
    "cancels-success": {G.CANCEL_LATE, G.NO_CONTRADICTION},
    "resolve-forgets-output": {G.RESOLVE_TRUE},
    "rejects-anew": {G.REJECTED_FINAL},
    "always-unknown": {G.UNKNOWN_CONVERGES},
}
KILLED: dict[str, set[Guarantee]] = {
    "commits-first": {G.KILL_LOSES_NOTHING},
    "forgets-on-kill": {G.KILL_REPEATS_NOTHING, G.KILL_KEEPS_FENCES},
    "stuck-on-poison": {G.POISON},
}


BUSY_MS = {"busy": "10", "commits-first": "30", "forgets-on-kill": "10"}
"""How long a command takes: a kill has to come in the middle of a batch."""


@dataclass(frozen=True)
class Ledger:
    path: Path

    async def count(self) -> Mapping[str, int]:
        with closing(sqlite3.connect(self.path)) as db:
            return dict(db.execute("select id, times from applied"))


@dataclass(frozen=True)
class Subject:
    """A running participant and what the suite is told about it."""

    process: ProcessControl
    ledger: Ledger
    connection: KafkaConnection
    topics: Topics
    name: str
    patience_s: float = 12

    def lab(self) -> Lab:
        return Lab(self.connection, self.topics, self.name)

    async def examined(self, step: str, lab: Lab, *, kill: bool = False) -> Report:
        profile = Profile(
            participant=self.name,
            step=step,
            accepted=Template(b'{"for": "${business_key}"}'),
            schema_id="conformance.test.v1",
            rejected=Template(b'{"refuse": true}'),
            cancellable=True,
            compensatable=True,
        )
        plan = Plan(
            profile=profile,
            effects=self.ledger,
            killer=Killing.of(self.process) if kill else None,
            within_s=self.patience_s,
            recovery_s=5,
            batch=40,
            kills=1,
        )
        return await examine(lab, plan)


Start = Callable[[str, str], Subject]


@pytest.fixture
def start(stack: LocalStack, topic_prefix: str, tmp_path: Path) -> Iterator[Start]:
    topics, connection = Topics(f"{topic_prefix}."), KafkaConnection(stack.kafka.bootstrap, "test")
    started: list[ProcessControl] = []

    async def ensure(name: str) -> None:
        async with TopicAdmin(connection) as admin:
            await admin.ensure(topics.catalogue([name], partitions=2))

    def begin(name: str, fault: str) -> Subject:
        asyncio.run(ensure(name))
        journal, ready = tmp_path / f"{name}.sqlite", tmp_path / f"{name}.ready"
        options = {
            "kafka": stack.kafka.bootstrap,
            "prefix": topics.prefix,
            "participant": name,
            "journal": str(journal),
            "ready": str(ready),
            "fault": fault,
            "busy-ms": BUSY_MS.get(fault, "0"),
        }
        argv = [sys.executable, str(BROKEN / "participant.py")]
        argv += [word for key, value in options.items() for word in (f"--{key}", value)]
        process = ProcessControl(ServerCommand(name, tuple(argv), tmp_path, ready.exists))
        started.append(process)
        process.start()
        return Subject(process, Ledger(journal), connection, topics, name)

    yield begin
    for process in started:
        process.kill()


def test_each_fault_is_found_under_its_name(start: Start) -> None:
    """One process with a fault per step, and one per fault of a whole process, side by side."""
    steps = start("steps", "none")
    # What is sound answers at once; what stays silent is waited for in vain.
    patient = dataclasses.replace(steps, patience_s=60)
    sound = dataclasses.replace(start("sound", "busy"), patience_s=60)
    killed = [start(fault, fault) for fault in KILLED]

    async def examine_all() -> list[Report]:
        async with AsyncExitStack() as opened:
            labs = [await opened.enter_async_context(steps.lab()) for _ in range(LABS)]
            works = [
                (steps if wanted else patient).examined(step, labs[number % LABS])
                for number, (step, wanted) in enumerate(FAULTS.items())
            ]
            for each in (sound, *killed):
                lab = await opened.enter_async_context(each.lab())
                works.append(each.examined("sound", lab, kill=each.name != "stuck-on-poison"))
            return await asyncio.gather(*works)

    reports = asyncio.run(examine_all())
    found = {f"{r.participant}/{r.step}": r for r in reports}
    expected = {f"steps/{step}": guarantees for step, guarantees in FAULTS.items()}
    expected |= {"sound/sound": set()}
    expected |= {f"{fault}/sound": guarantees for fault, guarantees in KILLED.items()}
    missed = {name: wanted - set(found[name].broken) for name, wanted in expected.items()}
    assert not {name: gap for name, gap in missed.items() if gap}, {
        name: found[name].broken for name, gap in missed.items() if gap
    }
    for name in ("steps/sound", "sound/sound"):
        assert not found[name].broken, found[name].text()
    assert not found["sound/sound"].not_checked, found["sound/sound"].text()
    covered = set().union(*expected.values())
    assert covered == set(Guarantee), "a fault is missing that breaks this guarantee"
    evidence = next(f for f in found["steps/wrong-target"].findings if f.guarantee is G.NAMED)
    assert evidence.verdict is Verdict.BROKEN
    assert "RESOLVE(COMPENSATE)" in found["steps/wrong-target"].text()


def test_the_command(
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By options and hooks alone; exit code 1 and evidence for what is broken."""
    subject = start("steps", "none")
    monkeypatch.setenv("SAGABUS_KAFKA", subject.connection.bootstrap)
    payload = tmp_path / "payload.json"
    payload.write_text("{}")
    arguments = ["conformance", "--participant", "steps", "--payload", str(payload), "--schema"]
    arguments += ["conformance.test.v1", "--topic-prefix", subject.topics.prefix, "--cancellable"]
    probe = f"{sys.executable} {BROKEN / 'effects.py'} {subject.ledger.path}"
    arguments += ["--effects-command", probe]
    assert run([*arguments, "--step", "sound"]) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    assert "kept         cancel-confirmed-is-a-fence" in said
    assert "not checked  compensate-only-what-succeeded" in said
    assert run([*arguments, "--step", "runs-twice-quietly", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    broken = [each for each in document["guarantees"] if each["verdict"] == "broken"]
    assert [each["name"] for each in broken] == ["one-effect-per-effect-id"]
    assert broken[0]["mend"]
    assert {each["direction"] for each in broken[0]["evidence"]} == {"sent", "received"}


def test_nobody_there_is_said_soon(start: Start, tmp_path: Path) -> None:
    subject = start("steps", "none")
    subject.process.kill()
    nobody = dataclasses.replace(subject, patience_s=1)

    async def examine_nobody() -> Report:
        async with nobody.lab() as lab:
            return await nobody.examined("sound", lab)

    report = asyncio.run(examine_nobody())
    assert report.broken == (Guarantee.ANSWERED,)
    assert len(report.not_checked) == len(Guarantee) - 1


def test_a_payload_that_is_not_accepted_is_said_at_once(
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    subject = start("steps", "none")
    monkeypatch.setenv("SAGABUS_KAFKA", subject.connection.bootstrap)
    payload = tmp_path / "payload.json"
    payload.write_text('{"refuse": true}')
    arguments = ["conformance", "--participant", "steps", "--step", "sound"]
    arguments += ["--payload", str(payload), "--schema", "conformance.test.v1"]
    assert run([*arguments, "--topic-prefix", subject.topics.prefix]) == 4
    assert "payload_not_accepted" in capsys.readouterr().err
