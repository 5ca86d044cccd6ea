"""Puts the timer together."""

from __future__ import annotations

from collections.abc import Sequence

from sagabus_bus import BatchSubscriber, BusMetrics, KafkaConnection, Subscription
from sagabus_messages import Topics
from sagabus_messages.topics import DEAD_LETTER_RETENTION_MS, RETENTION_MS
from sagabus_runtime import Health, Loop, Tracing, new_registry
from sagabus_store import (
    QUEUE_PLANNER,
    SHARED,
    Component,
    Database,
    DatabaseOptions,
    InboxWindow,
    migrate,
    require_current,
)
from sagabus_timer.config import TimerSettings
from sagabus_timer.events import TimerEvents
from sagabus_timer.firing import Firing, FiringPolicy
from sagabus_timer.handler import RequestHandler
from sagabus_timer.housekeeping import Housekeeping
from sagabus_timer.timekeeper import Timekeeper

__all__ = ["COMPONENTS", "TimerService", "build"]

COMPONENTS = (SHARED, Component("timer", "sagabus_timer", "sql/migrations"))
"""What the timer's database consists of, in the order in which it is migrated."""


class TimerService:
    """A timer process: requests in, wake-ups out, dead tombstones removed."""

    def __init__(self, settings: TimerSettings) -> None:
        registry = new_registry()
        self.health = Health(registry)
        self._settings = settings
        InboxWindow(settings.timer_window_days).require_covers(
            RETENTION_MS, DEAD_LETTER_RETENTION_MS
        )
        self._tracing = Tracing.start("sagabus-timer")
        events = TimerEvents(registry, self._tracing)
        topics = Topics(settings.topic_prefix)
        self._database = database = Database(
            settings.postgres.get_secret_value(),
            DatabaseOptions(
                application_name="sagabus-timer",
                pool_size=settings.postgres_pool_size,
                server_settings=QUEUE_PLANNER,
            ),
        )
        timekeeper = Timekeeper(database.now_ms, events)
        handler = RequestHandler(database, topics, settings.window_ms, timekeeper, events)
        subscriber = BatchSubscriber(
            KafkaConnection.of(settings, "sagabus-timer"),
            Subscription(group=settings.group, topics=(topics.wakeup_request,)),
            handler,
            metrics=BusMetrics(registry),
        )
        firing = Firing(database, topics, timekeeper, handler.armed, _policy(settings), events)
        housekeeping = Housekeeping(database, timekeeper, settings.window_ms, events)
        self.loops: Sequence[Loop] = (
            Loop("requests", subscriber.run),
            Loop("firing", firing.run),
            Loop("housekeeping", housekeeping.run),
        )
        self.health.add_check("postgres", database.problem)

    async def start(self) -> None:
        """Connect to the database and check its migrations; safe to repeat after a failure."""
        if self._settings.migrate_on_start:
            await migrate(self._settings.postgres.get_secret_value(), COMPONENTS)
        await self._database.open()
        async with self._database.connection() as connection:
            await require_current(connection, COMPONENTS)

    async def stop(self) -> None:
        """Close the database and tell the last spans."""
        await self._database.close()
        await self._tracing.aclose()


def _policy(settings: TimerSettings) -> FiringPolicy:
    return FiringPolicy(
        batch=settings.timer_batch,
        outbox_bound=settings.timer_outbox_bound,
        idle_ms=settings.timer_idle_ms,
        gap_ms=settings.timer_gap_ms,
    )


def build(settings: TimerSettings) -> TimerService:
    """Make every object; connects to nothing yet."""
    return TimerService(settings)
