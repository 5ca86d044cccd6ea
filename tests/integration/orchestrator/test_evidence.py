"""Every way to change something in a name leaves one row, with its effect or after none."""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from prometheus_client import CollectorRegistry

from sagabus_core.canonical import canonical_bytes
from sagabus_core.engine import (
    AttestedOutcome,
    Cancel,
    ManagementEvent,
    ManualClose,
    RecordOutcome,
    Retry,
)
from sagabus_core.engine.vocabulary import ForwardState
from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import Record, pack_headers, unpack_headers
from sagabus_orchestrator import letters
from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ApiKeys,
    KeyRequest,
    Permission,
    Principal,
    Role,
    TenantScope,
)
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.audit.findings import Fault, Scope
from sagabus_orchestrator.audit.verify import Verifier
from sagabus_orchestrator.bulk import BulkFilter, BulkKind, BulkOrder, Bulks
from sagabus_orchestrator.bulk.values import BulkState
from sagabus_orchestrator.catalog import DefinitionRef
from sagabus_orchestrator.leftovers import Leftovers
from sagabus_orchestrator.letters import Deed
from sagabus_orchestrator.redrive import DeadLetters
from sagabus_orchestrator.switchboard import Switchboard
from sagabus_orchestrator.tenants import MINUTE_MS
from sagabus_orchestrator.upkeep.archive import Archive, ArchivePolicy, drop_journal
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_runtime import failpoints
from sagabus_store import StoreUnavailable

from .support import (
    TABLES,
    TOPICS,
    WINDOW,
    Rig,
    commands,
    no_topics_missing,
    operation,
    order,
    pause,
    resume,
)

Do: TypeAlias = Callable[[], Awaitable[object]]
ADA = By("ada", "because")
OWNER = Principal("ada", frozenset(Permission), ALL_TENANTS)
V2 = DefinitionRef("", "order", 2)
NOWHERE = str(uuid.UUID(int=7))


@dataclass(frozen=True)
class Way:
    """One management operation: how it is done, and how it is refused (None: it never is)."""

    kind: str
    do: Do
    refused: Do | None
    tenant: str = "acme"
    refused_tenant: str = "acme"
    """Of the refusal: empty where nobody has looked yet whose it is."""


class Scene:
    """A system in which every way can be gone once, in the order of `ways`."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.bulks = Bulks(rig.database, rig.watcher)
        self.board = Switchboard(rig.database)
        self.keys = ApiKeys(rig.database)
        self.letters = DeadLetters(rig.database, TOPICS, rig.watcher, WINDOW)
        self.leftovers = Leftovers(rig.database, TOPICS)
        self.archive = Archive(rig.database, UpkeepEvents(CollectorRegistry()), ArchivePolicy())
        self.order = BulkOrder(
            BulkKind.PAUSE, BulkFilter(tenants=["acme"]), 100, "ada", "because", "b"
        )
        self.letter_ids: list[str] = []

    async def set_up(self) -> None:
        rig = self.rig
        early = [rig.result_record(rig.foretold(key, "reserve")) for key in ("L1", "L2")]
        await rig.process(*early)
        await self._keep_letters()
        keys = ("A", "C", "R", "O", "M", "E", "L1", "L2")
        sent = commands(await rig.process(*(rig.start_record(key) for key in keys)))
        await rig.process(
            *(
                rig.result_record(command, ResultStatus.HALTED)
                for command in sent
                if command.business_key in {"R", "O", "M"}
            )
        )
        stray = rig.result_record(rig.foretold("E", "ship"))
        await rig.run(
            'insert into early_result (id, saga_id, topic, partition, "offset", key, headers,'
            " value, kept_at) overriding system value values (1, $1, $2, 0, 1, $3, $4, $5, now())",
            *(rig.saga("E"), stray.topic, stray.key, pack_headers(stray.headers), stray.value),
        )
        await rig.run("select journal_create_partitions(current_date - 100, current_date - 100)")
        await rig.run(
            "update journal set recorded_at = recorded_at - interval '100 days' where saga_id = $1",
            rig.saga("A"),
        )

    async def _keep_letters(self) -> None:
        async with self.rig.database.transaction() as conn:
            rows = await conn.fetch("select * from outbox where topic like '%.dlt' order by id")
            found = [
                letters.read_letter(
                    Record(r["topic"], 0, n, r["key"], r["value"], unpack_headers(r["headers"]), 0),
                    TOPICS,
                )
                for n, r in enumerate(rows)
            ]
            await letters.keep(conn, found)
        self.letter_ids = [letter.id for letter in found]

    def saga(self, kind: str, key: str, event: ManagementEvent) -> Way:
        """Return an operation on a saga; under another id it is refused of a saga of nobody."""
        perform = self.rig.operations.perform
        return Way(
            f"saga:{kind}",
            lambda: perform("acme", self.rig.saga(key), event),
            lambda: perform("acme", NOWHERE, event),
        )

    def bulk(self, verb: str, state: BulkState) -> Way:
        def steer() -> Awaitable[object]:
            return self.bulks.steer(self.order.id, state, ADA)

        return Way(f"bulk:{verb}", steer, steer)  # a second time it is not in the state before

    def definition(self, verb: str, do: Callable[[DefinitionRef], Awaitable[object]]) -> Way:
        unknown = DefinitionRef("", "order", 9)
        return Way(f"definition:{verb}", lambda: do(V2), lambda: do(unknown), tenant="")

    def letter(self, kind: Any, number: int) -> Way:
        def perform(name: str) -> Awaitable[object]:
            deed = Deed(kind, name, "ada", "because", kind)
            return self.letters.perform(self.letter_ids[number], deed)

        return Way(f"dlt:{kind}", lambda: perform(kind), lambda: perform(f"{kind} again"))

    def ways(self) -> list[Way]:
        registry, tenants = self.rig.registry, self.rig.tenants
        attested = AttestedOutcome("reserve", ForwardState.SUCCEEDED)
        too_long_ms = 10**12
        narrow = BulkOrder(BulkKind.PAUSE, self.order.wanted, 1, "ada", "because", "n")
        return [
            self.saga("pause", "A", pause("p")),
            self.saga("resume", "A", resume("r")),
            self.saga("cancel", "C", Cancel(operation("c"))),
            self.saga("retry", "R", Retry(operation("t"))),
            self.saga("record-outcome", "O", RecordOutcome(operation("o"), attested, "ticket 7")),
            self.saga("close", "M", ManualClose(operation("m"))),
            self.letter("redrive", 0),
            self.letter("discard", 1),
            Way(
                "bulk:start",
                lambda: self.bulks.start(self.order),
                lambda: self.bulks.start(narrow),
            ),
            self.bulk("pause", BulkState.PAUSED),
            self.bulk("resume", BulkState.RUNNING),
            self.bulk("cancel", BulkState.CANCELLED),
            Way(
                "pause:set",
                lambda: self.board.set("workflow", "order", ADA, "acme"),
                lambda: self.board.set("workflow", "order", By("ada"), "acme"),
            ),
            Way(
                "pause:release",
                lambda: self.board.release("workflow", "order", ADA, "acme"),
                lambda: self.board.release("workflow", "order", ADA, "acme"),
            ),
            Way(
                "quota:set",
                lambda: tenants.set_quota("acme", 50, ADA),
                lambda: tenants.set_quota("acme", -1, ADA),
            ),
            Way("quota:set", lambda: tenants.remove_quota("acme", ADA), None),
            Way(
                "quota:set",
                lambda: tenants.set_rate("acme", "start", 50, MINUTE_MS, ADA),
                lambda: tenants.set_rate("acme", "start", 50, too_long_ms, ADA),
            ),
            Way("quota:set", lambda: tenants.remove_rate("acme", "start", ADA), None),
            Way("key:create", self.create_key, self.create_key),
            Way("key:revoke", lambda: self.revoke("ci"), lambda: self.revoke("none")),
            Way(
                "definition:publish",
                lambda: registry.publish(canonical_bytes(order(2)), ADA),
                lambda: registry.publish(canonical_bytes({**order(2), "flow": {}}), ADA),
                tenant="",
            ),
            self.definition("activate", lambda ref: registry.activate(ref, no_topics_missing, ADA)),
            self.definition("deprecate", lambda ref: registry.deprecate(ref, ADA)),
            self.definition("retire", lambda ref: registry.retire(ref, ADA)),
            Way(
                "recovery:discard",
                lambda: self.leftovers.discard([1], "ada", "because"),
                lambda: self.leftovers.discard([1], "ada", " "),
                refused_tenant="",
            ),
            Way(
                "archive:drop-journal",
                lambda: drop_journal(self.rig.database, 2, 1_000, ADA),
                lambda: drop_journal(self.rig.database, 2, 0, ADA),
                tenant="",
            ),
            Way("archive:run", lambda: self.archive.move(0, ADA), None, tenant=""),
        ]

    def create_key(self) -> Awaitable[object]:
        acme = TenantScope(frozenset({"acme"}))
        return self.keys.create(KeyRequest("ci", acme, frozenset({Role.VIEWER})), OWNER, "because")

    def revoke(self, name: str) -> Awaitable[object]:
        owner = Principal("ada", OWNER.permissions, TenantScope(frozenset({"acme"})))
        return self.keys.revoke(name, owner, "because")


async def rows(rig: Rig, behind: int = 0) -> list[dict[str, Any]]:
    async with rig.database.connection() as conn:
        found = await conn.fetch("select * from audit where seq > $1 order by seq", behind)
    return [dict(row) for row in found]


async def contents(rig: Rig) -> list[object]:
    """Return a digest of every table, the audit included."""
    query = "select md5(string_agg(t::text, '|' order by t::text)) from {} t"
    return [await rig.value(query.format(table)) for table in (*TABLES, "audit")]


async def last_seq(rig: Rig) -> int:
    found = await rig.value("select coalesce(max(seq), 0) from audit")
    assert isinstance(found, int)
    return found


def is_complete(row: dict[str, Any], kind: str, tenant: str) -> bool:
    told = (row["kind"], row["tenant"], row["actor"])
    named = row["permission"] and row["subject"] and row["detail"]
    return told == (kind, tenant, "ada") and bool(named)


async def test_every_way_leaves_one_complete_row_with_its_effect_or_after_none(rig: Rig) -> None:
    scene = Scene(rig)
    await scene.set_up()
    for way in scene.ways():
        if way.refused is not None and way.kind == "archive:drop-journal":
            await refuse(rig, way, way.refused)  # there is nothing to refuse once it is dropped
        before = await contents(rig)
        with (
            failpoints.armed("orchestrator.after-audit=error:57P01"),
            pytest.raises(StoreUnavailable),
        ):
            await way.do()
        assert await contents(rig) == before, f"{way.kind}: no effect without its row"
        mark = await last_seq(rig)
        await way.do()
        (row,) = await rows(rig, mark)
        assert is_complete(row, way.kind, way.tenant), row
        assert (row["outcome"], row["code"], row["reason"]) == ("done", "", "because")
        if way.refused is not None and way.kind != "archive:drop-journal":
            await refuse(rig, way, way.refused)
    # What was operated on is proved by the very rows; A's clock was set back by hand above.
    proved = await Verifier(rig.database, Scope(), lambda _: None).prove()
    assert {(found.saga_id, found.fault) for found in proved.breaks} == {
        (rig.saga("A"), Fault.CLOCK_DIFFERS)
    }


async def refuse(rig: Rig, way: Way, do: Do) -> None:
    before, mark = await contents(rig), await last_seq(rig)
    await rig.run("update refusal_budget set window_at = 'epoch', written = 0, withheld = 0")
    with pytest.raises(SagabusError) as found:
        await do()
    assert not found.value.retryable, way.kind
    (row,) = await rows(rig, mark)
    assert is_complete(row, way.kind, way.refused_tenant if way.tenant else ""), row
    assert (row["outcome"], row["code"]) == ("refused", found.value.code)
    assert (await contents(rig))[:-1] == before[:-1], f"{way.kind}: refused and yet changed"


async def test_what_touches_several_tenants_leaves_a_row_for_each_that_names_no_other(
    rig: Rig,
) -> None:
    scene = Scene(rig)
    await rig.process(
        *(rig.start_record(f"{tenant}-1", tenant=tenant) for tenant in ("acme", "zoo"))
    )
    both = BulkFilter(tenants=["zoo", "acme"])
    asked = BulkOrder(BulkKind.PAUSE, both, 100, "ada", "because", "two")
    mark = await last_seq(rig)
    begun = await scene.bulks.start(asked)
    await scene.bulks.steer(begun.id, BulkState.CANCELLED, ADA)
    with pytest.raises(SagabusError):
        await scene.bulks.steer(begun.id, BulkState.PAUSED, ADA)
    scope = TenantScope(frozenset({"acme", "zoo"}))
    await scene.keys.create(KeyRequest("two", scope, frozenset({Role.VIEWER})), OWNER, "because")
    found = await rows(rig, mark)
    per_tenant = {
        tenant: [(row["kind"], row["outcome"]) for row in found if row["tenant"] == tenant]
        for tenant in ("acme", "zoo", "")
    }
    each = [("bulk:start", "done"), ("bulk:cancel", "done"), ("bulk:pause", "refused")]
    assert per_tenant == {
        "acme": [*each, ("key:create", "done")],
        "zoo": per_tenant["acme"],
        "": [],
    }
    for row in found:
        other = "zoo" if row["tenant"] == "acme" else "acme"
        assert other not in str(row)
        assert " 2 " not in row["detail"], "how many it is together is no tenant's business"


async def test_an_act_that_changes_nothing_leaves_no_row(rig: Rig) -> None:
    scene = Scene(rig)
    await scene.create_key()
    await scene.revoke("ci")
    await drop_journal(rig.database, 2, 0, ADA)  # what another test left
    mark = await last_seq(rig)
    await scene.revoke("ci")
    await rig.tenants.remove_quota("acme", ADA)
    await rig.tenants.remove_rate("acme", "start", ADA)
    assert await scene.archive.move(0, ADA) == 0
    assert await drop_journal(rig.database, 2, 0, ADA) == []
    assert await rows(rig, mark) == []
