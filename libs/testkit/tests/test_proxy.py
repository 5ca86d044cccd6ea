"""The fault proxy against an echo server: each fault, and that nothing else changes."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator

import pytest

from sagabus_testkit import TcpProxy, eventually
from sagabus_testkit.proxy import Flow

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def echo_port() -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture
async def proxy(echo_port: int) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(echo_port) as running:
        yield running


@pytest.fixture
async def client(proxy: TcpProxy) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    yield reader, writer
    writer.transport.abort()


async def answer(client: Streams, text: bytes, within: float = 5.0) -> bytes:
    reader, writer = client
    writer.write(text)
    return await asyncio.wait_for(reader.readexactly(len(text)), within)


async def test_without_faults_bytes_pass_unchanged(client: Streams) -> None:
    blob = bytes(range(256)) * 4096
    assert await answer(client, blob) == blob


async def test_the_end_of_a_stream_passes_too(client: Streams) -> None:
    reader, writer = client
    writer.write(b"last")
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 5) == b"last"


async def test_a_cut_resets_connections_and_welcomes_new_ones(
    proxy: TcpProxy, client: Streams
) -> None:
    await answer(client, b"a")
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(client[0].readexactly(1), 5)
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert await answer((reader, writer), b"b") == b"b"
    writer.close()


@pytest.mark.parametrize("flows", [(), ("to_server",), ("to_client",)])
async def test_a_stall_holds_back_and_restore_delivers(
    proxy: TcpProxy, client: Streams, flows: tuple[Flow, ...]
) -> None:
    await answer(client, b"a")
    proxy.stall(*flows)
    with pytest.raises(TimeoutError):
        await answer(client, b"b", within=0.2)
    await proxy.restore()
    assert await asyncio.wait_for(client[0].readexactly(1), 5) == b"b"


async def test_a_cut_ends_stalled_connections(proxy: TcpProxy, client: Streams) -> None:
    await answer(client, b"a")
    proxy.stall()
    client[1].write(b"lost")
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(client[0].readexactly(1), 5)
    await eventually(lambda: proxy.connections == 0)


async def test_refusing_looks_like_a_host_without_the_server(
    proxy: TcpProxy, client: Streams
) -> None:
    await answer(client, b"a")
    await proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", proxy.port)
    await proxy.restore()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert await answer((reader, writer), b"b") == b"b"
    writer.close()


async def test_delay_slows_both_directions(proxy: TcpProxy, client: Streams) -> None:
    await answer(client, b"a")
    proxy.delay(0.1)
    before = time.monotonic()
    assert await answer(client, b"b") == b"b"
    assert time.monotonic() - before >= 0.2


async def test_a_server_that_is_down_closes_the_client() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with TcpProxy(closed.getsockname()[1]) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(1), 5)
            writer.transport.abort()
            await eventually(lambda: proxy.connections == 0)


async def test_it_listens_on_a_port_that_is_held_for_it(echo_port: int) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        held = holder.getsockname()[1]
        async with TcpProxy(echo_port, listen_port=held) as proxy:
            assert proxy.port == held
            reader, writer = await asyncio.open_connection("127.0.0.1", held)
            assert await answer((reader, writer), b"b") == b"b"
            writer.close()
