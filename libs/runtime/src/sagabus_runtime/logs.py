"""Structured logs: a stable event name plus fields, one JSON line each (or a console for people).

`saga_id` and `trace_id` are bound once, by `bound`, and appear on every line within, also across
awaits: the context belongs to the task. Lines of libraries (aiokafka, asyncpg) take the same way.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Literal, TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from sagabus_runtime.names import FIELD_SERVICE

__all__ = ["Level", "LogFormat", "bind", "bound", "configure", "get_logger", "unbind"]

Level = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "console"]

_FIRST = ("timestamp", "level", FIELD_SERVICE, "event")

# One variable for all fields: a handler call binds five of them, thousands of times a second.
_BOUND: ContextVar[Mapping[str, object]] = ContextVar("sagabus_bound", default={})  # noqa: B039


def configure(
    service: str, level: Level = "info", fmt: LogFormat = "auto", stream: TextIO | None = None
) -> None:
    """Send every log line of the process to `stream` (standard output); called once at start."""
    out = stream or sys.stdout
    as_json = fmt == "json" or (fmt == "auto" and not out.isatty())
    number = logging.getLevelNamesMapping()[level.upper()]

    def name_service(
        _logger: object, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        event.setdefault(FIELD_SERVICE, service)
        return event

    shared: list[Processor] = [
        name_service,
        _merge_bound,
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    ending: list[Processor] = (
        [
            structlog.processors.format_exc_info,
            _in_order,
            structlog.processors.JSONRenderer(default=str),
        ]
        if as_json
        # The formatter of its choice would show local variables, passwords among them.
        else [
            structlog.dev.ConsoleRenderer(
                colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    _adopt_library_logs(out, number, [*shared, _name_of_library], ending)


def get_logger() -> FilteringBoundLogger:
    """Return a logger that follows the configuration, also one made after this call."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger


@contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Add `fields` to every log line of this task within the block."""
    token = bind(fields)
    try:
        yield
    finally:
        unbind(token)


def bind(fields: Mapping[str, object]) -> Token[Mapping[str, object]]:
    """Do what `bound` begins, for hot paths; `unbind` takes it back."""
    return _BOUND.set({**_BOUND.get(), **fields})


def unbind(token: Token[Mapping[str, object]]) -> None:
    """Take back what `bind` added."""
    _BOUND.reset(token)


def _merge_bound(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    for name, value in _BOUND.get().items():
        event.setdefault(name, value)
    return event


def _in_order(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Put first what people look for first: when, how bad, who, what."""
    return {**{name: event[name] for name in _FIRST if name in event}, **event}


def _adopt_library_logs(
    out: TextIO, number: int, before: list[Processor], ending: list[Processor]
) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Libraries speak up when something is wrong; their chatter is not ours to index.
    root.setLevel(max(number, logging.WARNING))


def _name_of_library(
    logger: logging.Logger | None, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    record = event.get("_record")
    event["library"] = getattr(record, "name", getattr(logger, "name", "unknown"))
    event["text"], event["event"] = event["event"], "library.message"
    return event
