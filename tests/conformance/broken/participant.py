"""A small participant that does one thing wrong: the name of the step says what.

One process, one partition after the other, a journal in SQLite. `sound` is the step without
fault; the faults of a whole process (`--fault`) are those that a kill or poison brings to light.
"""

import argparse
import asyncio
import contextlib
import json
import sqlite3
import time
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from sagabus_core import ids
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_messages import (
    Command,
    Headers,
    MessageError,
    Meta,
    OutboxRow,
    Record,
    Result,
    Stamp,
    Topics,
    decode,
    encode,
    json_payload,
    verify_identity,
)

E, C, K, R = Phase.EXECUTE, Phase.CANCEL, Phase.COMPENSATE, Phase.RESOLVE
S = ResultStatus
Row: TypeAlias = dict[str, Any]
Sending: TypeAlias = tuple[str, bytes | None, Headers, bytes | None]

STEPS = (
    "sound", "runs-twice", "runs-twice-quietly", "ignores-fence", "resolve-does-not-fence",
    "wrong-attempt", "wrong-target", "forges-ids", "compensates-nothing", "undoes-twice",
    "lies-about-undo", "runs-expired", "takes-any-payload", "forgets-halt", "takes-forgeries",
    "drops-forgeries", "new-time-each-time", "loses-trace", "strict-members", "keys-by-saga",
    "silent-cancel", "cancels-success", "resolve-forgets-output", "rejects-anew",
    "always-unknown",
)  # fmt: skip
SCHEMA = """
create table if not exists effect (
    id text primary key, state text not null default 'NONE', reason text, output blob,
    halt text, halt_operation text
);
create table if not exists answer (command text primary key, headers text, value blob);
create table if not exists applied (id text primary key, times integer not null);
"""
FORGET = "drop table if exists effect; drop table if exists answer;"


class Journal:
    def __init__(self, path: str, *, forget: bool) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        # A killed process loses nothing by this; only a killed machine would.
        self.db.executescript("pragma journal_mode = wal; pragma synchronous = off;")
        if forget:
            self.db.executescript(FORGET)
        self.db.executescript(SCHEMA)

    def effect(self, key: str) -> Row:
        self.db.execute("insert or ignore into effect (id) values (?)", (key,))
        names = ("state", "reason", "output", "halt", "halt_operation")
        row = self.db.execute(f"select {', '.join(names)} from effect where id = ?", (key,))
        return dict(zip(names, row.fetchone(), strict=True))

    def save(self, key: str, **changed: object) -> None:
        sets = ", ".join(f"{name} = ?" for name in changed)
        self.db.execute(f"update effect set {sets} where id = ?", (*changed.values(), key))

    def apply(self, key: str) -> int:
        self.db.execute(
            "insert into applied values (?, 1) on conflict do update set times = times + 1", (key,)
        )
        return int(self.db.execute("select sum(times) from applied").fetchone()[0])


class Participant:
    def __init__(self, name: str, prefix: str, journal: Journal) -> None:
        self.name, self.topics, self.journal = name, Topics(prefix), journal

    def handle(self, record: Record) -> Sending | None:
        """Return (topic, key, headers, value) of what is to be sent."""
        try:
            command, meta = self.read(record)
        except MessageError as error:
            if b"drops-forgeries" in (record.value or b""):
                return None
            extra = (
                ("sagabus-error-reason", error.code.encode()),
                ("sagabus-error-source-topic", record.topic.encode()),
            )
            return record.topic + ".dlt", record.key, (*record.headers, *extra), record.value
        if command.expires_at_ms <= time.time() * 1000 and command.step != "runs-expired":
            return None
        if command.step == "silent-cancel" and command.phase is C:
            return None
        self.journal.db.execute("begin immediate")
        answer = self.answered(command, meta)
        self.journal.db.execute("commit")
        return answer

    def read(self, record: Record) -> tuple[Command, Meta]:
        envelope = decode(record, self.topics)
        command = envelope.body
        assert isinstance(command, Command)
        if command.step != "takes-forgeries":
            verify_identity(command)
        if command.step not in STEPS:
            raise MessageError("unknown_step", "not mine")
        if command.step == "strict-members" and b"member_of_the_future" in (record.value or b""):
            raise MessageError("invalid_field", "what is that?")
        return command, envelope.meta

    def answered(self, command: Command, meta: Meta) -> Sending:
        past = self.journal.db.execute(
            "select headers, value from answer where command = ?", (command.command_id,)
        ).fetchone()
        if past and command.step not in {"new-time-each-time", "runs-twice", "undoes-twice"}:
            headers, value = tuple((n, v.encode()) for n, v in json.loads(past[0])), past[1]
        else:
            row = self.encoded(command, meta, self.decide(command))
            headers, value = row.headers, row.value
            stored = json.dumps([(n, v.decode()) for n, v in headers])
            self.journal.db.execute(
                "insert or replace into answer values (?, ?, ?)",
                (command.command_id, stored, value),
            )
        return self.topics.result(self.name), command.saga_id.encode(), headers, value

    def encoded(self, command: Command, meta: Meta, said: Row) -> OutboxRow:
        now = int(time.time() * 1000)
        attempt, target, effect = command.attempt, command.target, command.effect_id
        if command.step == "wrong-attempt" and command.phase is not E:
            attempt += 1
        if command.step == "wrong-target" and target is not None:
            target = Phase.COMPENSATE if target is E else Phase.EXECUTE
            effect = ids.effect_id(command.saga_id, 1, command.activation, R, target)
        if command.step == "forges-ids" and command.phase is R:
            effect = str(uuid4())
        command_id = ids.command_id(effect, attempt)
        body = {
            name: getattr(command, name)
            for name in (
                "saga_id", "tenant", "workflow", "business_key", "definition_version",
                "definition_digest", "step", "activation", "phase",
            )
        }  # fmt: skip
        repeated = command.step in {"runs-twice", "undoes-twice"}
        result = Result(
            **body, **said, target=target, attempt=attempt, effect_id=effect,
            command_id=command_id, occurred_at_ms=now,
            event_id=str(uuid4()) if repeated else ids.result_event_id(command_id, 1),
        )  # fmt: skip
        trace = None if command.step == "loses-trace" else meta.traceparent
        stamp = Stamp(f"urn:sagabus:{self.name}", now, trace)
        return encode(result, self.topics.result(self.name), stamp)

    def decide(self, command: Command) -> Row:
        key = ids.effect_id(command.saga_id, 1, command.activation, E, None)
        if command.step == "keys-by-saga":
            key = command.saga_id
        match command.phase:
            case Phase.EXECUTE:
                return self.execute(command, key)
            case Phase.CANCEL:
                return self.cancel(command, key)
            case Phase.COMPENSATE:
                return self.compensate(command, key)
            case Phase.RESOLVE:
                return self.resolve(command, key)

    def execute(self, command: Command, key: str) -> Row:
        effect, fault = self.journal.effect(key), command.step
        if fault == "always-unknown":
            return {"status": S.UNKNOWN}
        if effect["state"] == "SUCCEEDED" and fault != "runs-twice":
            if fault == "runs-twice-quietly":
                self.journal.apply(key)
            return {"status": S.SUCCEEDED, "output": output_of(effect)}
        if effect["state"] == "REJECTED" and fault != "rejects-anew":
            return {"status": S.REJECTED, "reason_code": effect["reason"]}
        if effect["state"] == "FENCED" and fault != "ignores-fence":
            return {"status": S.REJECTED, "reason_code": "fenced"}
        operation = command.recovery_operation_id
        if effect["halt"] and operation in {None, effect["halt_operation"]}:
            return {"status": S.HALTED, "reason_code": effect["halt"]}
        payload = command.payload
        wrong = payload is None or payload.schema_id != "conformance.test.v1" or not payload.is_json
        if wrong and fault != "takes-any-payload":
            if fault != "forgets-halt":
                self.journal.save(key, halt="payload_contract_mismatch", halt_operation=operation)
            return {"status": S.HALTED, "reason_code": "payload_contract_mismatch"}
        if payload and b"refuse" in payload.body and effect["state"] == "NONE":
            self.journal.save(key, state="REJECTED", reason="refused")
            return {"status": S.REJECTED, "reason_code": "refused"}
        applied = ids.effect_id(command.saga_id, 1, command.activation, E, None)
        number = self.journal.apply(command.effect_id if fault == "takes-forgeries" else applied)
        made = json_payload({"number": number}, "conformance.test.output.v1")
        self.journal.save(key, state="SUCCEEDED", output=made.body, halt=None)
        return {"status": S.SUCCEEDED, "output": made}

    def cancel(self, command: Command, key: str) -> Row:
        state = self.journal.effect(key)["state"]
        if state in {"SUCCEEDED", "REJECTED"} and command.step != "cancels-success":
            return {"status": S.ALREADY_TERMINAL, "terminal_status": TerminalStatus(state)}
        self.journal.save(key, state="FENCED")
        return {"status": S.CANCEL_CONFIRMED}

    def compensate(self, command: Command, key: str) -> Row:
        effect, undo = self.journal.effect(key), self.journal.effect(command.effect_id)
        if undo["state"] == "SUCCEEDED" and command.step != "undoes-twice":
            return {"status": S.SUCCEEDED}
        if effect["state"] != "SUCCEEDED" and command.step != "compensates-nothing":
            return {"status": S.HALTED, "reason_code": "nothing_to_compensate"}
        self.journal.apply(command.effect_id)
        self.journal.save(command.effect_id, state="SUCCEEDED")
        return {"status": S.SUCCEEDED}

    def resolve(self, command: Command, key: str) -> Row:
        if command.target is K:
            undo = ids.effect_id(command.saga_id, 1, command.activation, K, None)
            done = self.journal.effect(undo)["state"] == "SUCCEEDED"
            if done or command.step == "lies-about-undo":
                return {"status": S.SUCCEEDED}
            return {"status": S.REJECTED, "reason_code": "not_compensated"}
        effect = self.journal.effect(key)
        if effect["state"] == "SUCCEEDED":
            forgets = command.step == "resolve-forgets-output"
            return {"status": S.SUCCEEDED, "output": None if forgets else output_of(effect)}
        if command.step == "always-unknown":
            return {"status": S.UNKNOWN}
        if effect["state"] == "NONE" and command.step != "resolve-does-not-fence":
            self.journal.save(key, state="FENCED")
        return {"status": S.REJECTED, "reason_code": "not_executed"}


def output_of(effect: Row) -> Payload:
    return Payload("application/json", "conformance.test.output.v1", effect["output"])


async def serve(options: argparse.Namespace) -> None:
    journal = Journal(options.journal, forget=options.fault == "forgets-on-kill")
    participant = Participant(options.participant, options.prefix, journal)
    topic = participant.topics.command(options.participant)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.kafka, group_id=f"{options.prefix}{options.participant}",
        enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=20,
    )  # fmt: skip
    producer = AIOKafkaProducer(bootstrap_servers=options.kafka, acks="all")
    await consumer.start()
    await producer.start()
    # Assigned, not subscribed: a successor needs not wait until the dead one's session is over.
    parts = await partitions(consumer, topic)
    consumer.assign(parts)
    Path(options.ready).touch()  # noqa: ASYNC240  # once
    working = asyncio.Event()  # never set: a handler takes a moment
    while True:
        polled, answers = await consumer.getmany(timeout_ms=200), []
        if options.fault == "commits-first":
            await consumer.commit()
        for raw in (raw for batch in polled.values() for raw in batch):
            record = Record(
                raw.topic, raw.partition, raw.offset, raw.key, raw.value,
                tuple(raw.headers), raw.timestamp,
            )  # fmt: skip
            sent = participant.handle(record)
            if sent and sent[0].endswith(".dlt") and options.fault == "stuck-on-poison":
                await working.wait()
            if sent:
                out = await producer.send(sent[0], sent[3], key=sent[1], headers=list(sent[2]))
                answers.append(out)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(working.wait(), options.busy_ms / 1000)
        await asyncio.gather(*answers)
        # Not within the loop: the position is already behind everything that was polled.
        await consumer.commit()


async def partitions(consumer: AIOKafkaConsumer, topic: str) -> list[TopicPartition]:
    client = consumer._client
    await client.force_metadata_update()
    await client.add_topic(topic)
    return [TopicPartition(topic, p) for p in client.cluster.partitions_for_topic(topic) or ()]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("kafka", "prefix", "participant", "journal", "ready"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--fault", default="")
    parser.add_argument("--busy-ms", type=int, default=0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
