"""An update of a saga under way stays on its page: no index holds what every transition changes."""

from sagabus_core.vocabulary import SagaStatus

from .support import Rig, commands

INDEXED = """
select distinct a.attname
from pg_index i
join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = i.indexrelid
    and d.refobjid = i.indrelid
join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
where i.indrelid = 'saga'::regclass
"""
CHANGES = {"revision", "snapshot", "snapshot_schema", "journal_head", "traceparent", "updated_at"}


async def test_no_index_holds_what_every_transition_changes(rig: Rig) -> None:
    async with rig.database.connection() as conn:
        indexed = {row["attname"] for row in await conn.fetch(INDEXED)}
    assert {"status", "armed_at_ms", "ended_at"} <= indexed
    assert not indexed & CHANGES


async def test_a_transition_within_a_status_is_heap_only(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    async with rig.database.transaction() as conn:
        before = await conn.fetchval("select pg_stat_get_xact_tuples_hot_updated('saga'::regclass)")
        await conn.execute("update saga set updated_at = clock_timestamp(), revision = revision")
        after = await conn.fetchval("select pg_stat_get_xact_tuples_hot_updated('saga'::regclass)")
    assert (before, after) == (0, 1)
    (command,) = commands(sent)
    await rig.process(rig.result_record(command))
    assert await rig.count(f"saga where status = '{SagaStatus.RUNNING}' and ended_at is null") == 1
