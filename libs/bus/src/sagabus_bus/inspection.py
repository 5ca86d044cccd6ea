"""The settings that topics really have, for `sagabus doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from sagabus_bus.admin import TopicAdmin
from sagabus_bus.errors import translate

__all__ = ["TopicInspector"]

_RETENTION: Final = "retention.ms"
_UNKNOWN_TOPIC: Final = 3


class TopicInspector(TopicAdmin):
    """Reads settings of topics beside what `TopicAdmin` offers. Use as `async with`."""

    async def __aenter__(self) -> TopicInspector:
        await super().__aenter__()
        return self

    async def retention_ms(self, names: Iterable[str]) -> dict[str, int]:
        """Return how long each topic that exists keeps records, in milliseconds; -1: for ever."""
        wanted = [
            ConfigResource(ConfigResourceType.TOPIC, name, {_RETENTION: ""}) for name in names
        ]
        if not wanted:
            return {}
        answers: list[Any] = await self._ask("read settings", lambda c: c.describe_configs(wanted))
        found: dict[str, int] = {}
        for code, message, _, name, entries in (r for a in answers for r in a.resources):
            if code == _UNKNOWN_TOPIC:
                continue
            if code:
                raise translate(for_code(code)(message or ""), f"read settings of {name}")
            (found[name],) = [int(entry[1]) for entry in entries if entry[0] == _RETENTION]
        return found
