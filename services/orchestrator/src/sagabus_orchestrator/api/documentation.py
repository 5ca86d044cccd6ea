"""What every operation says about itself in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from sagabus_orchestrator.api.problems import PROBLEM_TYPE

__all__ = ["refusals"]

_MEANINGS: Final = {
    400: "The request breaks a documented rule",
    401: "The caller is not known",
    403: "The caller may not do this",
    404: "There is no such thing for this caller",
    408: "The request took too long to arrive",
    409: "That is not possible as things stand",
    410: "What was asked for is kept no longer",
    412: "It changed since the revision that was expected",
    413: "The body is larger than 256 KiB",
    415: "The body is not announced as uncompressed JSON",
    422: "The content is not what was declared",
    429: "More than the tenant may do now, or one caller at once",
    431: "Request line and headers are larger than 32 KiB, or more than 100 fields",
    500: "A defect of this service",
    503: "A part of the system is away: ask again",
}
ALWAYS: Final = (400, 401, 403, 408, 413, 415, 429, 431, 500, 503)
"""Statuses that any operation may answer."""


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems that an operation answers with, those of every operation included."""
    return {
        status: {
            "description": _MEANINGS[status],
            "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted({*statuses, *ALWAYS})
    }
