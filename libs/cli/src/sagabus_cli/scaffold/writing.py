"""Writing a project from its templates: wholly, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from sagabus_cli.errors import Refused, UsageError
from sagabus_core.errors import InvalidValue
from sagabus_core.names import check_name
from sagabus_testkit.system import API, SERVICES

__all__ = ["write_participant"]

_LONGEST_NAME: Final = 40
_RENAMED: Final = {"gitignore": ".gitignore"}
_RESERVED: Final = frozenset(kind.name for kind in (*SERVICES, API))


def write_participant(name: str, folder: Path) -> Path:
    """Write the project of a participant into `folder`/`name` and return that path.

    Raises `UsageError` (`invalid_name`, `name_taken`, `directory_missing`) and `Refused`
    (`directory_exists`, `directory_unwritable`); then nothing was written.
    """
    check_participant_name(name)
    target = folder / name
    if not folder.is_dir():
        raise UsageError("directory_missing", f"{folder} is no directory: create it first")
    if target.exists() or target.is_symlink():
        raise Refused("directory_exists", f"{target} exists: choose another name or --dir")
    words = {"{{name}}": name, "{{package}}": package_of(name)}
    try:
        _write_whole(target, words)
    except OSError as cause:
        raise Refused(
            "directory_unwritable", f"cannot write {target}: {cause.strerror or cause}"
        ) from cause
    return target


def check_participant_name(name: str) -> None:
    """Raise `UsageError` unless topics, a database and a Python package can be called so."""
    try:
        check_name(name, "the participant")
    except InvalidValue as cause:
        raise UsageError(cause.code, cause.detail) from cause
    if not name[0].isalpha() or len(name) > _LONGEST_NAME:
        raise UsageError(
            "invalid_name",
            f"{name!r} must begin with a letter and have at most {_LONGEST_NAME} characters: "
            "its package and database are called after it",
        )
    if name in _RESERVED:
        raise UsageError("name_taken", f"{name!r} is a service of sagabus: choose another name")


def package_of(name: str) -> str:
    """Return the import name; the suffix keeps `time` or `class` from being shadowed."""
    return f"{name.replace('-', '_')}_participant"


def _write_whole(target: Path, words: dict[str, str]) -> None:
    # Beside the target, so that the last step is one rename on the same file system.
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        templates = files("sagabus_cli.scaffold").joinpath("templates", "participant")
        _write_tree(templates, draft, words)
        draft.chmod(0o777 & ~_umask())
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _write_tree(source: Traversable, folder: Path, words: dict[str, str]) -> None:
    for entry in source.iterdir():
        if entry.is_dir():
            named = words["{{package}}"] if entry.name == "package" else entry.name
            (folder / named).mkdir()
            _write_tree(entry, folder / named, words)
        elif entry.name.endswith(".tmpl"):
            (folder / _file_name(entry.name, words)).write_text(_filled(entry, words))


def _file_name(template: str, words: dict[str, str]) -> str:
    plain = template.removesuffix(".tmpl")
    if plain == "workflow.json":
        return f"{words['{{name}}']}.v1.json"
    return _RENAMED.get(plain, plain)


def _filled(template: Traversable, words: dict[str, str]) -> str:
    text = template.read_text()
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
