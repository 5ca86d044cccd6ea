"""A bulk operation goes on no longer than the rights of whoever answers for it."""

from dataclasses import replace

import pytest

from sagabus_core.engine import ManagementEvent
from sagabus_core.vocabulary import ResultStatus
from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ApiKeys,
    KeyRequest,
    KeyRights,
    Permission,
    Principal,
    Role,
    TenantScope,
    engine_rights,
    permissions_of,
)
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.bulk import Bulk, BulkKind, BulkState, BulkWorker
from sagabus_orchestrator.operation_terms import OperationOutcome, Terms

from .support import Rig, commands
from .test_bulk import begin, bulks, wanted

ROOT = Principal("user:root@corp", frozenset(Permission), ALL_TENANTS)
RIGHTS = engine_rights(permissions_of([Role.OPERATOR]))
BOB = By("user:bob@corp", "it is right as it is")


def worker(rig: Rig) -> BulkWorker:
    return BulkWorker(rig.database, rig.operations, rig.watcher, KeyRights(rig.database))


async def finish(rig: Rig, bulk: Bulk) -> Bulk:
    while await worker(rig).tick():
        pass
    return await bulks(rig).get(bulk.id)


async def start(rig: Rig, kind: BulkKind = BulkKind.PAUSE) -> Bulk:
    """Begin a bulk operation with a key of an operator."""
    request = KeyRequest("ci", TenantScope(frozenset({"acme"})), frozenset({Role.OPERATOR}))
    await ApiKeys(rig.database).create(request, ROOT)
    return await bulks(rig).start(replace(wanted(kind, permitted=RIGHTS), actor="key:ci"))


@pytest.mark.parametrize(
    ("lost", "how"),
    [
        ("revoked_at = now(), revoked_by = 'root'", "was revoked"),
        ("expires_at = now()", "has expired"),
        ("roles = '{viewer}'", "may not pause sagas in bulk any more"),
        ("tenants = '{globex}'", "has lost a tenant"),
    ],
)
async def test_a_key_that_lost_its_rights_stops_its_bulk_and_somebody_else_resumes_it(
    rig: Rig, lost: str, how: str
) -> None:
    await begin(rig, 25)
    begun = await start(rig)
    assert await worker(rig).tick()
    await rig.run(f"update api_key set {lost}")
    stopped = await finish(rig, begun)
    assert (stopped.state, stopped.done) == (BulkState.PAUSED, 20)
    assert stopped.note.startswith("rights_lost: the API key 'ci'")
    assert how in stopped.note
    told = "select actor || ' ' || reason || ' ' || tenant from audit where kind = 'bulk:stop'"
    assert await rig.value(told) == f"sagabus {stopped.note} acme"
    await bulks(rig).steer(begun.id, BulkState.RUNNING, BOB, ["acme"], RIGHTS)
    ended = await finish(rig, begun)
    assert (ended.state, ended.done, ended.note) == (BulkState.DONE, 25, "")
    paused = "audit where kind = 'saga:pause' and actor"
    assert await rig.count(f"{paused} = 'key:ci'") == 20
    assert await rig.count(f"{paused} = 'user:bob@corp'") == 5


async def test_a_key_that_lost_some_rights_uses_none_of_them(rig: Rig) -> None:
    sent = await rig.process(rig.start_record("ORD-1"))
    await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))
    begun = await start(rig, BulkKind.RETRY)
    left = "'{bulk:run,saga:retry-compensation}'"
    await rig.run(f"update api_key set roles = '{{}}', permissions = {left}")
    assert (await finish(rig, begun)).refused == 1
    assert [r.code for r in await bulks(rig).refusals(begun.id, 10)] == ["permission_denied"]


async def test_tokens_and_whoever_has_the_password_of_the_database_keep_their_rights(
    rig: Rig,
) -> None:
    await begin(rig, 2)
    for name, actor, permitted in (
        ("a", "user:alice@corp", RIGHTS),
        ("b", "key:nobody", None),  # with the password one may call oneself what one likes
    ):
        order = replace(wanted(name=name, permitted=permitted), actor=actor)
        ended = await finish(rig, await bulks(rig).start(order))
        assert ended.state is BulkState.DONE


async def test_whoever_resumes_it_answers_for_what_a_batch_in_hand_had_before_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(rig, 8)
    begun, attempt, tried = await start(rig), rig.operations.attempt, []

    async def interrupted(
        tenant: str, saga_id: str, event: ManagementEvent, terms: Terms
    ) -> OperationOutcome:
        tried.append(saga_id)
        if len(tried) == 4:
            for state in (BulkState.PAUSED, BulkState.RUNNING):
                await bulks(rig).steer(begun.id, state, BOB, ["acme"], RIGHTS)
        return await attempt(tenant, saga_id, event, terms)

    monkeypatch.setattr(rig.operations, "attempt", interrupted)
    ended = await finish(rig, begun)
    assert (ended.state, ended.done, ended.refused) == (BulkState.DONE, 8, 0)
    paused = "audit where kind = 'saga:pause' and actor"
    assert await rig.count(f"{paused} = 'key:ci'") == 3
    assert await rig.count(f"{paused} = 'user:bob@corp'") == 5
