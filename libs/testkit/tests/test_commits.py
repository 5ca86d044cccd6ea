"""The proxy that loses the connection during COMMIT: both outcomes, and nothing else is touched."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sagabus_testkit import eventually
from sagabus_testkit.faults import CommitCutter, CommitFate

COMMIT = b"Q\x00\x00\x00\x0cCOMMIT;\x00"
ANSWER = b"done"


class Server:
    """Answers whatever it is told, and keeps it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                self.heard.append(data)
                writer.write(ANSWER)
        except ConnectionError:
            pass
        finally:
            writer.close()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def cutter(server: Server) -> AsyncIterator[CommitCutter]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with CommitCutter(listener.sockets[0].getsockname()[1]) as running:
        yield running
    listener.close()


async def say(cutter: CommitCutter, *messages: bytes) -> int:
    """Return how many messages were answered before the connection was lost."""
    reader, writer = await asyncio.open_connection("127.0.0.1", cutter.port)
    answered = 0
    try:
        for message in messages:
            writer.write(message)
            await asyncio.wait_for(reader.readexactly(len(ANSWER)), 5)
            answered += 1
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.transport.abort()
    return answered


@pytest.mark.parametrize(
    ("fate", "arrives"), [(CommitFate.LOST, [b"work"]), (CommitFate.DONE, [b"work", COMMIT])]
)
async def test_a_commit_loses_its_connection(
    cutter: CommitCutter, server: Server, fate: CommitFate, arrives: list[bytes]
) -> None:
    cutter.cut_commits(fate, 1)

    answered = await say(cutter, b"work", COMMIT)

    assert answered == 1
    assert cutter.commits_cut == 1
    await eventually(lambda: server.heard == arrives)


async def test_only_so_many_commits_are_cut_and_nothing_else(cutter: CommitCutter) -> None:
    assert await say(cutter, b"work", COMMIT) == 2
    cutter.cut_commits(CommitFate.LOST, 2)
    assert [await say(cutter, COMMIT) for _ in range(3)] == [0, 0, 1]
    assert cutter.commits_cut == 2
