"""Rules for names, tenants and keys, and the limits of the system."""

from __future__ import annotations

import re
from typing import Final

from sagabus_core.errors import InvalidValue

__all__ = [
    "ACTIVATION_MAX",
    "MAX_BODY_BYTES",
    "NAME_PATTERN",
    "REASON_CODE_PATTERN",
    "TEXT_KEY_MAX",
    "check_key",
    "check_name",
    "check_reason_code",
]

NAME_PATTERN: Final = r"[a-z0-9][a-z0-9-]{0,62}"
"""Workflows, participants, steps and flow nodes. No dot: dots join names to activation paths."""

ACTIVATION_MAX: Final = 1024
"""Longest path of an activation, in characters."""

REASON_CODE_PATTERN: Final = r"[a-z][a-z0-9_]{0,62}"

TEXT_KEY_MAX: Final = 128
"""Longest tenant or business key, in characters."""

MAX_BODY_BYTES: Final = 256 * 1024
"""Largest body of a message, in bytes of its encoded JSON (dead letters excepted)."""

_NAME = re.compile(NAME_PATTERN)
_REASON_CODE = re.compile(REASON_CODE_PATTERN)


def check_name(value: str, what: str) -> str:
    """Return `value` if it is a well-formed name, else raise `InvalidValue` (`invalid_name`)."""
    if _NAME.fullmatch(value) is None:
        raise InvalidValue("invalid_name", f"{what} {value!r} must match {NAME_PATTERN}")
    return value


def check_key(value: str, what: str) -> str:
    """Return `value` if it has 1 to 128 printable characters, else raise `invalid_key`."""
    if not 1 <= len(value) <= TEXT_KEY_MAX or not value.isprintable():
        raise InvalidValue(
            "invalid_key", f"{what} must be 1 to {TEXT_KEY_MAX} printable characters"
        )
    return value


def check_reason_code(value: str) -> str:
    """Return a lower snake case reason code, else raise `InvalidValue` (`invalid_reason_code`)."""
    if _REASON_CODE.fullmatch(value) is None:
        raise InvalidValue(
            "invalid_reason_code", f"reason code {value!r} must match {REASON_CODE_PATTERN}"
        )
    return value
