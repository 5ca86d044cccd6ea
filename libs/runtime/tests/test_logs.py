"""One JSON line per event, with the fields of the running task."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from sagabus_runtime import bound, get_logger, logs


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handlers, level = logging.getLogger().handlers, logging.getLogger().level
    logs.configure("orchestrator", "info", "auto", stream)
    yield stream
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.getLogger().handlers = handlers
    logging.getLogger().setLevel(level)


def parsed(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_with_service_level_and_time(lines: io.StringIO) -> None:
    get_logger().debug("too.quiet")
    get_logger().info("inbox.claimed", rows=3)
    (line,) = parsed(lines)
    assert list(line) == ["timestamp", "level", "service", "event", "rows"]
    assert line.pop("timestamp")
    assert line == {
        "event": "inbox.claimed",
        "level": "info",
        "service": "orchestrator",
        "rows": 3,
    }


async def test_tasks_do_not_see_each_others_fields(lines: io.StringIO) -> None:
    async def work(saga: str) -> None:
        with bound(saga_id=saga):
            await asyncio.wait({asyncio.create_task(asyncio.to_thread(int))})
            get_logger().info("saga.seen", expected=saga)

    await asyncio.gather(*(work(f"s{n}") for n in range(5)))
    assert all(line["saga_id"] == line["expected"] for line in parsed(lines))
    get_logger().info("after")
    assert "saga_id" not in parsed(lines)[-1]


def test_a_traceback_stays_on_one_line(lines: io.StringIO) -> None:
    try:
        int("boom")
    except ValueError:
        get_logger().exception("service.crashed")
    (line,) = parsed(lines)
    assert "ValueError: invalid literal" in str(line["exception"])


def test_libraries_log_the_same_way_when_something_is_wrong(lines: io.StringIO) -> None:
    logging.getLogger("aiokafka").info("chatter")
    with bound(trace_id="t1"):
        logging.getLogger("aiokafka").warning("lost %s", "the broker")
    (line,) = parsed(lines)
    assert (line["event"], line["text"]) == ("library.message", "lost the broker")
    assert (line["library"], line["trace_id"]) == ("aiokafka", "t1")
