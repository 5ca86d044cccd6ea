"""A relay that forgets a record now and then: chaos has to find out."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Final

from sagabus_bus import Outcome, Published, Publisher
from sagabus_bus.ports import Guard
from sagabus_messages import OutboxRow
from sagabus_relay import delivery
from sagabus_relay.__main__ import main

FORGETS_EVERY: Final = 60
_numbers = itertools.count(1)


class _ForgetfulPublisher(Publisher):
    async def publish(
        self, rows: Sequence[OutboxRow], guard: Guard = lambda: None
    ) -> list[Outcome]:
        forgotten = [next(_numbers) % FORGETS_EVERY == 0 for _ in rows]
        kept = [row for row, gone in zip(rows, forgotten, strict=True) if not gone]
        outcomes = iter(await super().publish(kept, guard))
        return [Published(0, 0) if gone else next(outcomes) for gone in forgotten]


if __name__ == "__main__":
    vars(delivery)["Publisher"] = _ForgetfulPublisher
    sys.exit(main([]))
