"""A key kept in a file: how a local stack gets one of its own, once."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from sagabus_cli import Refused, UsageError
from sagabus_orchestrator.api.identity import (
    ApiKey,
    ApiKeys,
    KeyRequest,
    KeyText,
    KeyVerifier,
    Principal,
)
from sagabus_orchestrator.errors import Refused as Taken
from sagabus_store import Database

__all__ = ["key_in_file"]

_NAMES_TRIED: Final = 1_000


async def key_in_file(
    database: Database, request: KeyRequest, by: Principal, file: Path
) -> tuple[str, bool]:
    """Return the name of the key in `file` and whether it was made now.

    A file whose key counts is left alone. Else a new key goes there, readable by its owner alone;
    where the name was used before, a number is added.
    """
    name = await _name_of_valid(database, _read(file))
    if name is not None:
        return name, False
    key, text = await _create(ApiKeys(database), request, by)
    _write(file, text.reveal())
    return key.name, True


def _read(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as cause:
        raise UsageError("unreadable_file", f"cannot read {file}") from cause


async def _name_of_valid(database: Database, text: str) -> str | None:
    found = await KeyVerifier(database).judge(text)
    return found.actor.removeprefix("key:") if isinstance(found, Principal) else None


async def _create(keys: ApiKeys, request: KeyRequest, by: Principal) -> tuple[ApiKey, KeyText]:
    for number in range(1, _NAMES_TRIED):
        name = request.name if number == 1 else f"{request.name}-{number}"
        try:
            return await keys.create(replace(request, name=name), by)
        except Taken as error:
            if error.code != "key_name_taken":
                raise
    raise Refused("key_name_taken", f"too many keys are named like {request.name}")


def _write(file: Path, text: str) -> None:
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(f"{text}\n")
    fresh.replace(file)
