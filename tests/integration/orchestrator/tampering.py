"""What somebody who owns the database may do to saga B, and by which fault it is told."""

from typing import Final

from sagabus_orchestrator.audit.findings import Fault

__all__ = ["TAMPERING"]

OF_B: Final = "saga_id = (select id from saga where business_key = 'B')"
ROW_B: Final = "business_key = 'B'"
TAMPERING: Final = {
    "bytes of a fact": (
        Fault.BROKEN_LINK,
        f"""
        update journal
        set fact = convert_to(
            replace(convert_from(fact, 'UTF8'), '"actor":"ada"', '"actor":"eve"'), 'UTF8'
        )
        where {OF_B} and revision = 2
        """,
    ),
    "a fact removed": (
        Fault.MISSING_FACTS,
        f"""
        delete from journal where {OF_B} and revision = 3
        """,
    ),
    "two facts swapped": (
        Fault.BROKEN_LINK,
        f"""
        update journal j set fact = other.fact from journal other
        where j.{OF_B} and other.{OF_B}
        and (j.revision, other.revision) in ((2, 3), (3, 2)) and j.ordinal = 0 and other.ordinal = 0
        """,
    ),
    "the tail": (
        Fault.OTHER_END,
        f"""
        delete from journal where {OF_B} and revision > 4
        """,
    ),
    "all facts": (
        Fault.OTHER_END,
        f"""
        delete from journal where {OF_B}
        """,
    ),
    "journals of two sagas swapped": (
        Fault.OTHER_END,
        """
        with swapped as (
            delete from journal j using saga a, saga b
            where a.business_key = 'A' and b.business_key = 'B' and j.saga_id in (a.id, b.id)
            returning j.seq, case when j.saga_id = a.id then b.id else a.id end as id, j.revision,
                      j.ordinal, j.fact, j.head, j.written_by, j.recorded_at
        )
        insert into journal overriding system value select * from swapped order by seq
        """,
    ),
    "a fact's time": (
        Fault.CLOCK_DIFFERS,
        f"""
        update journal set recorded_at = recorded_at - interval '1 ms' where {OF_B}
        """,
    ),
    "the status": (
        Fault.ROW_DIFFERS,
        f"""
        update saga set status = 'COMPLETED' where {ROW_B}
        """,
    ),
    "the control": (
        Fault.ROW_DIFFERS,
        f"""
        update saga set control = 'PAUSED' where {ROW_B}
        """,
    ),
    "whose it is": (
        Fault.ROW_DIFFERS,
        f"""
        update saga set tenant = 'evil' where {ROW_B}
        """,
    ),
    "the revision": (
        Fault.OTHER_END,
        f"""
        update saga set revision = 99 where {ROW_B}
        """,
    ),
    "when it began": (
        Fault.ROW_DIFFERS,
        f"""
        update saga set created_at = created_at - interval '1 day' where {ROW_B}
        """,
    ),
    "when it changed": (
        Fault.ROW_DIFFERS,
        f"""
        update saga set updated_at = updated_at - interval '1 day' where {ROW_B}
        """,
    ),
    "when it acts": (
        Fault.ROW_DIFFERS,
        f"""
        update saga set armed_at_ms = 1 where {ROW_B}
        """,
    ),
    "its definition": (
        Fault.ROW_DIFFERS,
        f"""
        update saga set definition_version = 2 where {ROW_B}
        """,
    ),
    "status of the snapshot": (
        Fault.ROW_DIFFERS,
        f"""
        update saga
        set status = 'COMPLETED', snapshot = convert_to(
            replace(
                convert_from(snapshot, 'UTF8'), '"COMPENSATED","control', '"COMPLETED","control'
            ),
            'UTF8'
        )
        where {ROW_B}
        """,
    ),
    "the plan": (
        Fault.SNAPSHOT_DIFFERS,
        f"""
        update saga
        set snapshot = convert_to(
            jsonb_set(convert_from(snapshot, 'UTF8')::jsonb, '{{plan,2,0}}', '"reserve"')::text,
            'UTF8'
        )
        where {ROW_B}
        """,
    ),
    "the state of a step": (
        Fault.SNAPSHOT_DIFFERS,
        f"""
        update saga
        set snapshot = convert_to(
            replace(convert_from(snapshot, 'UTF8'), '"REJECTED"', '"SUCCEEDED"'), 'UTF8'
        )
        where {ROW_B}
        """,
    ),
    "attempts": (
        Fault.SNAPSHOT_DIFFERS,
        f"""
        update saga
        set snapshot = convert_to(replace(convert_from(snapshot, 'UTF8'), '"E":1', '"E":2'), 'UTF8')
        where {ROW_B}
        """,
    ),
    "an unreadable snapshot": (
        Fault.UNREADABLE,
        f"""
        update saga set snapshot = 'x' where {ROW_B}
        """,
    ),
    "the key": (
        Fault.KEY_MISSING,
        f"""
        delete from saga_key k using saga s where s.id = k.id and {ROW_B}
        """,
    ),
    "what the key was started with": (
        Fault.ROW_DIFFERS,
        f"""
        update saga_key k set definition_version = 2 from saga s
        where s.id = k.id and {ROW_B}
        """,
    ),
    "the saga": (
        Fault.SAGA_MISSING,
        f"""
        delete from saga where {ROW_B}
        """,
    ),
    "an audit row": (
        Fault.AUDIT_DIFFERS,
        f"""
        delete from audit where {OF_B} and kind = 'saga:pause'
        """,
    ),
    "the actor of an audit row": (
        Fault.AUDIT_DIFFERS,
        f"""
        update audit set actor = 'eve' where {OF_B} and kind = 'saga:pause'
        """,
    ),
    "the kind of an audit row": (
        Fault.AUDIT_DIFFERS,
        f"""
        update audit set kind = 'saga:cancel' where {OF_B} and kind = 'saga:pause'
        """,
    ),
    "an audit row of what nobody did": (
        Fault.AUDIT_DIFFERS,
        f"""
        insert into audit (kind, actor, permission, tenant, workflow, saga_id, subject,
                           operation_id, reason, outcome, code, detail)
        select 'saga:cancel', 'bob', 'saga:cancel', 'acme', 'order', id, '',
               'x', 'y', 'done', '', ''
        from saga where {ROW_B}
        """,
    ),
}
