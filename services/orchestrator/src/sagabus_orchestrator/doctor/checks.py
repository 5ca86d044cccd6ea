"""A check and its judgement: facts in, ok, warn or fail out, with what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = [
    "Check",
    "Level",
    "judge_clock",
    "judge_count",
    "judge_group",
    "judge_holds",
    "judge_outbox",
    "judge_partitions",
    "judge_retention",
    "judge_role",
    "judge_topics",
    "judge_writer",
    "worst",
]

DAY_MS: Final = 86_400_000
SKEW_WARN_MS: Final = 1_000
SKEW_FAIL_MS: Final = 60_000
"""Records more than 10 minutes ahead are refused; deadlines and fences suffer long before."""
LAG_WARN: Final = 10_000
OUTBOX_WARN_MS: Final = 10_000
WRITER_WARN_MS: Final = 60_000


class Level(StrEnum):
    """How bad it is; `fail` makes the exit code 1."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `mend` says what to do unless all is well."""

    name: str
    level: Level
    detail: str
    mend: str = ""


def worst(checks: Iterable[Check]) -> Level:
    """Return the worst level of all."""
    levels = {check.level for check in checks}
    return next((level for level in (Level.FAIL, Level.WARN) if level in levels), Level.OK)


def judge_clock(name: str, skew_ms: int) -> Check:
    """Judge how far a database's clock is from this host's (half a round trip is allowed for)."""
    off = abs(skew_ms)
    level = Level.OK if off < SKEW_WARN_MS else Level.WARN if off < SKEW_FAIL_MS else Level.FAIL
    direction = "ahead of" if skew_ms > 0 else "behind"
    detail = f"{name} is {off / 1000:.3f} s {direction} this host"
    return Check("clock", level, detail, "synchronise the clocks (chrony, ntpd)" if off else "")


def judge_count(name: str, count: int, what: str, mend: str, level: Level = Level.FAIL) -> Check:
    """Judge a number that must be 0."""
    if count == 0:
        return Check(name, Level.OK, f"no {what}")
    return Check(name, level, f"{count} {what}", mend)


def judge_outbox(name: str, waiting: int, oldest_ms: int) -> Check:
    """Judge how long the oldest record of an outbox waits for the relay."""
    if waiting == 0:
        return Check("outbox", Level.OK, f"{name}: nothing waits")
    detail = f"{name}: {waiting} records wait, the oldest for {oldest_ms / 1000:.1f} s"
    if oldest_ms < OUTBOX_WARN_MS:
        return Check("outbox", Level.OK, detail)
    mend = "start a relay, or name this outbox in its SAGABUS_OUTBOXES; mind held topics"
    return Check("outbox", Level.FAIL, detail, mend)


def judge_role(role: str, traits: Mapping[str, bool]) -> Check:
    """Judge the rights of the role that the services use."""
    missing = [name for name, held in traits.items() if name.startswith("may_") and not held]
    if missing:
        detail = f"{role} lacks {', '.join(name.removeprefix('may_') for name in missing)}"
        return Check("role", Level.FAIL, detail, "grant the profile app (grants.sql)")
    excess = [name for name in ("superuser", "edits_journal") if traits.get(name)]
    if excess:
        detail = f"{role} has more rights than it needs: {', '.join(excess)}"
        return Check("role", Level.WARN, detail, "run services as a role of profile app")
    return Check("role", Level.OK, f"{role} may do what it needs and no more")


def judge_topics(counts: Mapping[str, int], wanted: Iterable[str]) -> Check:
    """Judge which topics exist, and whether equal keys meet on equal partitions."""
    missing = sorted(name for name in wanted if name not in counts)
    if missing:
        detail = f"{len(missing)} topics are missing: {', '.join(missing[:5])}"
        return Check("topics", Level.FAIL, detail, "create them as contracts/topics.md says")
    different = sorted(set(counts.values()))
    if len(different) > 1:
        detail = f"topics have {different} partitions"
        return Check("topics", Level.WARN, detail, "equal counts keep a saga's records together")
    return Check("topics", Level.OK, f"{len(counts)} topics of {different or [0]} partitions")


def judge_retention(kept_ms: Mapping[str, int], inbox_days: int) -> Check:
    """Judge whether a broker can deliver what the inbox has forgotten."""
    endless = [name for name, ms in kept_ms.items() if ms < 0]
    if endless:
        mend = "set retention.ms as contracts/topics.md says"
        return Check("retention", Level.FAIL, f"kept for ever: {', '.join(endless[:5])}", mend)
    plain = max((ms for name, ms in kept_ms.items() if not name.endswith(".dlt")), default=0)
    letters = max((ms for name, ms in kept_ms.items() if name.endswith(".dlt")), default=0)
    days = (plain + letters) / DAY_MS
    detail = f"topics and dead letters together {days:.1f} days, inbox {inbox_days} days"
    if inbox_days > days:
        return Check("retention", Level.OK, detail)
    return Check("retention", Level.FAIL, detail, "raise SAGABUS_INBOX_DAYS or lower retention.ms")


def judge_group(group: str, members: int, behind: int) -> Check:
    """Judge a consumer group: somebody must read, and not be far behind."""
    detail = f"{group}: {members} live members, {behind} records behind"
    if members == 0:
        return Check("group", Level.FAIL, detail, "start the service that reads this group")
    level = Level.OK if behind < LAG_WARN else Level.WARN
    return Check("group", level, detail, "add replicas, or look for what holds them" * bool(behind))


def judge_holds(holds: int, sagas: int) -> Check:
    """Judge the switches that keep commands back: somebody must not forget them."""
    if not holds and not sagas:
        return Check("holds", Level.OK, "no workflow and no participant is held")
    detail = f"{holds} holds are set, {sagas} sagas are paused by holds"
    return Check("holds", Level.WARN, detail, "sagabus hold list; release what is mended")


def judge_writer(pid: int | None, application: str | None, age_ms: int | None) -> Check:
    """Judge the oldest transaction that has written: pages of journal and audit stop before it."""
    if age_ms is None or age_ms < WRITER_WARN_MS:
        return Check("writers", Level.OK, "no transaction writes for long")
    who = f"{application or 'a session'} (pid {pid})"
    detail = f"{who} has written and not ended for {age_ms / 1000:.0f} s: newest pages wait for it"
    return Check("writers", Level.WARN, detail, "end that session, or wait for it")


def judge_partitions(table: str, last_day_away: int | None, needed_days: int) -> Check:
    """Judge whether the partitions of the next days exist."""
    name, mend = "partitions", "start an orchestrator: it makes partitions hourly"
    if last_day_away is None or last_day_away < 0:
        return Check(name, Level.FAIL, f"{table} has no partition for today", mend)
    level = Level.OK if last_day_away >= needed_days else Level.WARN
    return Check(name, level, f"{table} has partitions for {last_day_away} days to come", mend)
