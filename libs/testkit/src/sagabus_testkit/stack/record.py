"""What is written down about a running stack, so that other processes find it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from sagabus_testkit.stack.home import directory_of, is_owned, owner_of
from sagabus_testkit.stack.local_stack import LocalStack

__all__ = ["StackRecord", "read_record", "record_of", "write_record"]

_FILE = "stack.json"


@dataclass(frozen=True, slots=True)
class StackRecord:
    """Addresses, process ids and logs of a running stack; `owner` is its supervising process."""

    name: str
    directory: str
    owner: int
    kafka: str
    postgres: str
    kafka_pid: int | None
    postgres_pid: int | None


def record_of(stack: LocalStack) -> StackRecord:
    """Describe a stack of this process, starting what does not run yet."""
    return StackRecord(
        name=stack.name,
        directory=str(stack.directory),
        owner=os.getpid(),
        kafka=stack.kafka.bootstrap,
        postgres=stack.postgres.dsn,
        kafka_pid=stack.kafka.pid,
        postgres_pid=stack.postgres.pid,
    )


def write_record(record: StackRecord) -> Path:
    """Write the record into the stack's directory, readable by its user only: it has a password."""
    path = Path(record.directory) / _FILE
    partial = path.with_suffix(".partial")
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(asdict(record), indent=2) + "\n")
    return partial.replace(path)


def read_record(name: str, root: Path | None = None) -> StackRecord | None:
    """Return the record of the stack of that name if it runs, else None."""
    directory = directory_of(name, root)
    try:
        record = StackRecord(**json.loads((directory / _FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return record if is_owned(directory) and owner_of(directory) == record.owner else None
