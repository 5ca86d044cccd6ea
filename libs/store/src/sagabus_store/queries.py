"""Named queries: SQL lives in .sql files, each query with a name and one line of purpose.

    -- name: lock_instances
    -- Lock the given instances in id order; those that do not exist are missing from the answer.
    select ... order by id for update

A query ends where the next name begins. What the file holds is what the server sees, after a
comment with the name, so that `pg_stat_activity` and server logs say which query it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

from sagabus_store.errors import QueryFileError

__all__ = ["Queries", "Query", "parse_queries"]

_NAME = re.compile(r"^-- name: *(?P<name>\S*) *$", re.MULTILINE)
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a .sql file; `text` is what is sent."""

    name: str
    purpose: str
    text: str


def parse_queries(source: str, origin: str) -> dict[str, Query]:
    """Return the queries of one .sql text by name, in order.

    Raises `QueryFileError` for a name that is malformed or taken, a missing purpose, or no body.
    """
    starts = list(_NAME.finditer(source))
    if not starts or source[: starts[0].start()].strip():
        raise QueryFileError("no_query_name", f"{origin} must begin with '-- name: ...'")
    ends = [start.start() for start in starts[1:]] + [len(source)]
    found: dict[str, Query] = {}
    for start, end in zip(starts, ends, strict=True):
        query = _parse_one(start["name"], source[start.end() : end].strip(), origin)
        if query.name in found:
            raise QueryFileError("duplicate_query", f"{origin} has two queries {query.name}")
        found[query.name] = query
    return found


def _parse_one(name: str, block: str, origin: str) -> Query:
    if _IDENTIFIER.fullmatch(name) is None:
        raise QueryFileError("bad_query_name", f"{origin}: {name!r} is no lower snake case name")
    first, _, body = block.partition("\n")
    if not first.startswith("-- ") or not first.removeprefix("-- ").strip():
        raise QueryFileError("no_query_purpose", f"{origin}: {name} lacks its line of purpose")
    if not body.strip():
        raise QueryFileError("empty_query", f"{origin}: {name} has no statement")
    return Query(name, first.removeprefix("-- ").strip(), f"/* {name} */ {body.strip()}")


class Queries(Mapping[str, str]):
    """The queries of some .sql files of one package, by name; files are read at first use.

    `Queries("sagabus_timer", "sql/wakeups.sql")["arm"]` is the text to execute.
    """

    def __init__(self, package: str, *paths: str) -> None:
        self._package = package
        self._paths = paths

    @cached_property
    def catalogue(self) -> dict[str, Query]:
        """Every query by name; raises `QueryFileError` for a bad or missing file."""
        found: dict[str, Query] = {}
        for path in self._paths:
            origin = f"{self._package}/{path}"
            try:
                source = files(self._package).joinpath(path).read_text("utf-8")
            except OSError as cause:
                raise QueryFileError("no_query_file", f"{origin} cannot be read") from cause
            for name, query in parse_queries(source, origin).items():
                if name in found:
                    raise QueryFileError("duplicate_query", f"{origin} repeats {name}")
                found[name] = query
        return found

    def __getitem__(self, name: str) -> str:
        return self.catalogue[name].text

    def __iter__(self) -> Iterator[str]:
        return iter(self.catalogue)

    def __len__(self) -> int:
        return len(self.catalogue)
