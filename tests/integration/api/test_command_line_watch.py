"""`--watch` by the real command in its own process: draws on change, ends by itself."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.integration.orchestrator.support import Rig, commands

from sagabus_core.vocabulary import ResultStatus
from sagabus_testkit import TcpProxy, eventually

from .lines import NOT_PERMITTED, REFUSED, UNREACHABLE, USAGE, Line, once
from .support import PEOPLE

INTERRUPTED, READER_GONE = 130, 141
both_ways = pytest.mark.parametrize("way", ["direct", "api"])


# A shell lets what it runs in the background ignore Ctrl-C, and so do the tests that run there.
_ATTENDED = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from sagabus_cli.app import main; main()"
)


class Watcher:
    """A command that runs, and what it says line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def document(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            found: dict[str, Any] = json.loads(await self.process.stdout.readline())
        return found

    async def complaint(self) -> str:
        assert self.process.stderr is not None
        async with asyncio.timeout(30):
            return (await self.process.stderr.readline()).decode()

    def close(self) -> None:
        """Read no more: the pipe is closed, as by `head`."""
        transport = self.process._transport  # type: ignore[attr-defined]  # asyncio has no other way
        transport.get_pipe_transport(1).close()

    async def end(self) -> tuple[int, str]:
        assert self.process.stderr is not None
        async with asyncio.timeout(30):
            said = (await self.process.stderr.read()).decode()
            return await self.process.wait(), said

    async def rest(self) -> tuple[int, list[dict[str, Any]], str]:
        async with asyncio.timeout(30):
            out, err = await self.process.communicate()
        code = self.process.returncode
        assert code is not None
        return code, [json.loads(each) for each in out.splitlines()], err.decode()


@asynccontextmanager
async def watching(place: list[str], *words: str) -> AsyncIterator[Watcher]:
    line = [sys.executable, "-c", _ATTENDED, "--json", *place, *words, "--watch"]
    environment = {**os.environ, "SAGABUS_API_KEY": "admin", "SAGABUS_TOPIC_PREFIX": ""}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *line, env=environment, stdout=pipe, stderr=pipe, limit=2**20
    )
    try:
        yield Watcher(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def place_of(way: str, url: str, prepared: str) -> list[str]:
    return ["--api", url] if way == "api" else ["--postgres", prepared]


@both_ways
@pytest.mark.parametrize("command", ["show", "why"])
async def test_a_saga_is_watched_until_it_is_settled(
    rig: Rig, url: str, prepared: str, way: str, command: str
) -> None:
    sent = await rig.process(rig.start_record())
    async with watching(place_of(way, url, prepared), command, "ORD-1") as watcher:
        first = await watcher.document()
        assert (first["status"], first["revision"]) == ("RUNNING", 1)
        sent = await rig.process(rig.result_record(commands(sent)[0], ResultStatus.SUCCEEDED))
        second = await watcher.document()
        while second["revision"] == 1:  # `why` also tells what changes beside the saga
            second = await watcher.document()
        assert (second["status"], second["revision"]) == ("RUNNING", 2)
        await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))
        code, rest, said = await watcher.rest()
    assert (code, rest[-1]["status"], said) == (0, "MANUAL_INTERVENTION", "")


@both_ways
async def test_a_list_is_watched_until_ctrl_c(rig: Rig, url: str, prepared: str, way: str) -> None:
    await rig.process(rig.start_record())
    async with watching(place_of(way, url, prepared), "list") as watcher:
        assert len((await watcher.document())["sagas"]) == 1
        await rig.process(rig.start_record("ORD-2"))
        assert len((await watcher.document())["sagas"]) == 2
        watcher.process.send_signal(signal.SIGINT)
        code, rest, said = await watcher.rest()
    assert (code, rest, said.strip()) == (INTERRUPTED, [], "")


async def test_ctrl_c_ends_a_long_poll(rig: Rig, url: str) -> None:
    await rig.process(rig.start_record())
    async with watching(["--api", url], "show", "ORD-1") as watcher:
        await watcher.document()
        watcher.process.send_signal(signal.SIGINT)
        code, rest, said = await watcher.rest()
    assert (code, rest, said.strip()) == (INTERRUPTED, [], "")


@pytest.mark.parametrize("words", [("list",), ("show", "ORD-1")], ids=" ".join)
async def test_an_outage_is_told_once_and_looked_through(
    rig: Rig, url: str, words: tuple[str, ...]
) -> None:
    sent = await rig.process(rig.start_record())
    port = urlsplit(url).port
    assert port is not None
    async with (
        TcpProxy(port) as proxy,
        watching(["--api", f"http://127.0.0.1:{proxy.port}"], *words) as watcher,
    ):
        await watcher.document()
        await eventually(lambda: proxy.connections > 0)
        await proxy.refuse()
        assert "trying again for 300 s" in await watcher.complaint()
        await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))
        await proxy.restore()
        told = await watcher.document()
        told = told["sagas"][0] if words == ("list",) else told
        assert told["status"] == "MANUAL_INTERVENTION"
        assert "answers again" in await watcher.complaint()
        if words == ("list",):
            await rig.process(rig.start_record("ORD-2"))
            assert len((await watcher.document())["sagas"]) == 2
            watcher.process.send_signal(signal.SIGINT)
        code, _, said = await watcher.rest()
    assert (code, said) == (INTERRUPTED if words == ("list",) else 0, "")


@pytest.mark.parametrize("words", [("list",), ("show", "ORD-1")], ids=" ".join)
async def test_an_outage_that_does_not_end_is_given_up(
    rig: Rig, url: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.process(rig.start_record())
    monkeypatch.setenv("SAGABUS_WATCH_OUTAGE_S", "0.5")
    port = urlsplit(url).port
    assert port is not None
    async with (
        TcpProxy(port) as proxy,
        watching(["--api", f"http://127.0.0.1:{proxy.port}"], *words) as watcher,
    ):
        await watcher.document()
        await proxy.refuse()
        code, rest, said = await watcher.rest()
    assert (code, rest[-1]["error"]["code"]) == (UNREACHABLE, "api_unreachable")
    assert "gave up after 0.5 s" in rest[-1]["error"]["detail"]
    assert len(said.splitlines()) == 1
    assert "Traceback" not in said


async def test_a_key_that_is_revoked_ends_a_watch(rig: Rig, url: str) -> None:
    sent = await rig.process(rig.start_record())
    async with watching(["--api", url], "show", "ORD-1") as watcher:
        await watcher.document()
        known = PEOPLE.pop("admin")
        try:
            await rig.process(rig.result_record(commands(sent)[0], ResultStatus.SUCCEEDED))
            code, rest, _ = await watcher.rest()
        finally:
            PEOPLE["admin"] = known
    assert (code, rest[-1]["error"]["code"]) == (NOT_PERMITTED, "credentials_missing")


@pytest.mark.parametrize("words", [("list",), ("show", "ORD-1")], ids=" ".join)
async def test_a_reader_that_goes_away_is_no_error(
    rig: Rig, url: str, words: tuple[str, ...]
) -> None:
    sent = await rig.process(rig.start_record())
    async with watching(["--api", url], *words) as watcher:
        await watcher.document()
        watcher.close()
        await rig.process(rig.result_record(commands(sent)[0], ResultStatus.SUCCEEDED))
        await rig.process(rig.start_record("ORD-2"))
        code, said = await watcher.end()
    assert (code, said) == (READER_GONE, "")


@both_ways
async def test_what_cannot_be_watched_says_why_in_one_line(
    rig: Rig, line: Line, url: str, prepared: str, way: str
) -> None:
    await rig.process(rig.start_record())
    said = await once(line, way, "show", "ORD-1", "ORD-2", "--watch", code=USAGE)
    assert said["error"]["code"] == "usage"
    async with watching(place_of(way, url, prepared), "show", "ORD-9") as watcher:
        code, said_lines, _ = await watcher.rest()
    assert (code, said_lines[0]["error"]["code"]) == (REFUSED, "not_found")
