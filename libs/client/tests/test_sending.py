"""A start that Kafka refuses to take is told at once; an outage is waited out."""

from typing import cast

import pytest

from sagabus_bus import BusMisconfigured, BusUnavailable, KafkaConnection, Published, Publisher
from sagabus_client import SagabusClient, StartCommand, StartNotSent
from sagabus_messages import OutboxRow, Topics


class Broken:
    """A publisher that fails with these errors, one after the other, and then works."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def publish(self, rows: list[OutboxRow]) -> list[Published]:
        if self.errors:
            raise self.errors.pop(0)
        return [Published(0, 0) for _ in rows]


def client(*errors: Exception) -> SagabusClient:
    made = SagabusClient(KafkaConnection("127.0.0.1:1", "test"), Topics(""), name="test")
    made._publisher = cast("Publisher", Broken(*errors))
    return made


COMMAND = StartCommand("acme", "order", "ORD-1")


async def test_wrong_rights_are_told_at_once() -> None:
    refused = BusMisconfigured("bus_misconfigured", "no rights")
    with pytest.raises(BusMisconfigured, match="no rights"):
        await client(*[refused] * 100).start_all([COMMAND])


async def test_an_outage_is_waited_out() -> None:
    away = BusUnavailable("bus_unavailable", "away")
    (handle,) = await client(away).start_all([COMMAND])
    assert handle.business_key == "ORD-1"
    with pytest.raises(StartNotSent):
        await client(*[away] * 100).start_all([COMMAND], timeout_s=0.1)
