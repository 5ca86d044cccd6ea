"""A key kept in a file: how a local stack gets one of its own, once."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from sagabus_cli import NotPermitted, Refused, UsageError
from sagabus_core.errors import SagabusError
from sagabus_orchestrator.api.identity import KeyRequest, read_key_text
from sagabus_orchestrator.commands.office import Document, Office

__all__ = ["key_in_file"]

_NAMES_TRIED: Final = 1_000
_PAGE: Final = 1_000


def key_in_file(
    office: Office, request: KeyRequest, reason: str, file: Path
) -> tuple[str | None, bool]:
    """Return the name of the key in `file` and whether it was made now.

    A file whose key counts is left alone; the name of one that the caller may not list is None.
    Else a new key goes there, readable by its owner alone; where the name was used before, a
    number is added.
    """
    text = _read(file)
    if read_key_text(text) is not None and office.key_counts(text):
        return _name_of(office, text), False
    _require_writable(file)
    made = _create(office, request, reason)
    _write(file, made["key"])
    return str(made["name"]), True


def _read(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as cause:
        raise UsageError("unreadable_file", f"cannot read {file}") from cause


def _name_of(office: Office, text: str) -> str | None:
    key, cursor = read_key_text(text), None
    while key is not None:
        try:
            page = office.keys(_PAGE, cursor)
        except NotPermitted:
            return None  # whoever may make keys need not be allowed to list them
        for each in page["keys"]:
            if each["id"] == key.id:
                return str(each["name"])
        cursor = page["next_cursor"]
        if cursor is None:
            return None
    return None


def _create(office: Office, request: KeyRequest, reason: str) -> Document:
    for number in range(1, _NAMES_TRIED):
        name = request.name if number == 1 else f"{request.name}-{number}"
        try:
            return office.create_key(replace(request, name=name), reason)
        except SagabusError as error:
            if error.code != "key_name_taken":
                raise
    raise Refused("key_name_taken", f"too many keys are named like {request.name}")


def _require_writable(file: Path) -> None:
    """Raise before a key is made that could not be kept."""
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise UsageError("unwritable_file", f"cannot write {file}: choose another --file")


def _write(file: Path, text: str) -> None:
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(f"{text}\n")
    fresh.replace(file)
