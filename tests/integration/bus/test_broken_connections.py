"""A connection that breaks between two requests is an outage to the driver, on uvloop as well."""

import asyncio

import pytest
import uvloop
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from sagabus_bus import KafkaConnection
from sagabus_testkit import eventually


async def _break_and_write(connection: KafkaConnection) -> str:
    """Write right after the end of the transport, before the driver has heard of it."""
    client = AIOKafkaClient(**connection.options())
    await client.bootstrap()
    try:
        node = client.get_random_node()
        broken = await client._get_conn(node)
        assert broken is not None
        # Its reader would hear of the end one turn of the loop later: that turn is what matters.
        broken._read_task.cancel()
        transport = broken._writer.transport
        transport.abort()
        await eventually(lambda: "closed=True" in repr(transport), within=10)
        with pytest.raises(KafkaConnectionError, match="broken"):
            await broken.send(MetadataRequest([]))
        assert not broken.connected()
        assert await client.force_metadata_update(), "the driver connects again"
        return type(asyncio.get_running_loop()).__module__
    finally:
        await client.close()


def test_a_write_to_a_connection_that_just_broke_is_an_outage(connection: KafkaConnection) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_break_and_write(connection)).startswith("uvloop")
