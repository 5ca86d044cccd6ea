"""Limits of a definition; each is tested at its edge and one beyond."""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "DEFAULT_ATTEMPTS",
    "MAX_ATTEMPTS",
    "MAX_BACKOFF_FACTOR",
    "MAX_DEFINITION_BYTES",
    "MAX_DEPTH",
    "MAX_DURATION_MS",
    "MAX_EXPRESSION_LENGTH",
    "MAX_STEPS",
    "MAX_TEXT",
    "MAX_VARIABLES",
    "MAX_VERSION",
    "RESERVED_WORDS",
    "VARIABLE",
]

MAX_DEFINITION_BYTES: Final = 256 * 1024
"""Of the canonical form."""

MAX_STEPS: Final = 256
"""Step nodes in the flow, and entries of `steps`."""

MAX_VARIABLES: Final = 64

MAX_DEPTH: Final = 16
"""Parallels and choices around a node."""

MAX_DURATION_MS: Final = 10 * 366 * 24 * 3_600_000
"""Ten years: any instant plus any duration stays far below 2^53 milliseconds."""

MAX_ATTEMPTS: Final = 1_000
DEFAULT_ATTEMPTS: Final = 5
MAX_BACKOFF_FACTOR: Final = 100
MAX_VERSION: Final = 2**31 - 1
MAX_TEXT: Final = 256
"""Content types, schema identities, payload field names and pointers, in characters."""

MAX_EXPRESSION_LENGTH: Final = 4_096

VARIABLE: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")

RESERVED_WORDS: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import"),
        *("in", "let", "loop", "namespace", "null", "package", "return", "true", "var", "void"),
        "while",
    }
)
"""Words of the expression language (CEL) that cannot name a variable."""
