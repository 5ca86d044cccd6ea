"""Every error as an RFC 9457 problem with our stable code, and nothing that a stranger should see.

The table of statuses is the last column of contracts/errors.md; a contract test compares both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from sagabus_core.definitions import InvalidDefinition
from sagabus_core.errors import SagabusError
from sagabus_messages.strict_json import dump
from sagabus_orchestrator.api.identity import CHALLENGE, Unauthenticated
from sagabus_orchestrator.api.statuses import STATUS_OF
from sagabus_orchestrator.api.trace import trace_id_of
from sagabus_runtime import get_logger
from sagabus_runtime.errors import is_retryable

__all__ = [
    "PROBLEM_TYPE",
    "FieldError",
    "Problem",
    "problem_of",
    "problem_of_ours",
    "status_of",
    "unexpected",
]

PROBLEM_TYPE: Final = "application/problem+json"
MAX_FIELD_ERRORS: Final = 20
RETRY_AFTER_S: Final = 1
_PLACES: Final = {"query": "query", "path": "path", "header": "header"}
_HTTP_CODES: Final[Mapping[int, tuple[str, str]]] = {
    404: ("route_unknown", "there is nothing at this path: see /openapi.json"),
    405: ("method_not_allowed", "this path does not take this method: see /openapi.json"),
    413: ("body_too_large", "a request body may have 256 KiB"),
}


class FieldError(BaseModel):
    """What is wrong with one field."""

    pointer: str = Field(description="Where: `/payload/data` in the body, `query/limit` elsewhere.")
    detail: str


class Problem(BaseModel):
    """RFC 9457 problem details; programs decide on `code`."""

    type: str = Field(description="`urn:sagabus:error:` and the code.")
    title: str
    status: int
    detail: str = Field(description="A sentence for people; may change.")
    code: str = Field(description="The stable code: contracts/errors.md.")
    retryable: bool = Field(description="Whether the same request can succeed later, unchanged.")
    trace_id: str = Field(description="Names this request in logs and traces.")
    errors: list[FieldError] | None = Field(default=None, description="What is wrong, by field.")


def status_of(error: SagabusError) -> int:
    """Return the HTTP status of an error."""
    return STATUS_OF.get(error.code, 503 if error.retryable else 500)


async def problem_of(request: Request, error: Exception) -> Response:
    """Return the problem that answers a request: the exception handler of the app."""
    match error:
        case RequestValidationError():
            return _invalid(request, error)
        case HTTPException():
            found = _HTTP_CODES.get(error.status_code, ("invalid_request", "see /openapi.json"))
            headers = dict(error.headers or {})
            return _response(request, error.status_code, found, headers=headers)
        case SagabusError():
            return _of_ours(request, error)
        case _:
            return unexpected(request, error)


def problem_of_ours(request: Request, error: SagabusError) -> Response:
    """Return the problem of one of our errors, for whoever stands before the app."""
    return _of_ours(request, error)


def unexpected(request: Request, error: Exception) -> Response:
    """Return the answer to what nobody foresaw: the log has all, the caller its trace id."""
    get_logger().exception(
        "api.unexpected_error",
        method=request.method,
        path=request.url.path,
        trace_id=trace_id_of(request),
        error=type(error).__name__,
    )
    said = ("internal_error", "a defect of this service: report it with the trace_id")
    return _response(request, 500, said)


def _of_ours(request: Request, error: SagabusError) -> Response:
    status = status_of(error)
    detail = error.detail
    if status >= 500:
        # What an outage or a defect says may name hosts and tables: that is for the log alone.
        get_logger().warning(
            "api.failed", code=error.code, detail=detail, trace_id=trace_id_of(request)
        )
        detail = _DETAIL_OF_OUTAGE if is_retryable(error) else _DETAIL_OF_DEFECT
    headers = {"www-authenticate": CHALLENGE} if isinstance(error, Unauthenticated) else {}
    if status == 408:
        headers["connection"] = "close"  # the rest of the body may still come
    fields = None
    if isinstance(error, InvalidDefinition):
        fields = [{"pointer": p.path, "detail": f"{p.rule}: {p.mend}"} for p in error.problems]
    return _response(
        request,
        status,
        (error.code, detail),
        retryable=error.retryable,
        headers=headers,
        fields=fields,
    )


_DETAIL_OF_OUTAGE: Final = "a part of the system is away for the moment: ask again"
_DETAIL_OF_DEFECT: Final = "this service cannot answer that: report it with the trace_id"


def _invalid(request: Request, error: RequestValidationError) -> Response:
    found: Sequence[Any] = error.errors()
    first = found[0] if found else {}
    missing = first.get("type") == "missing"
    fields = [
        {"pointer": _pointer(each["loc"]), "detail": str(each["msg"])[:300]}
        for each in found[:MAX_FIELD_ERRORS]
    ]
    where = fields[0]["pointer"] if fields else "the request"
    what = "is missing" if missing else fields[0]["detail"] if fields else "is malformed"
    code = "missing_field" if missing else "invalid_field"
    return _response(request, 400, (code, f"{where}: {what}"), fields=fields)


def _pointer(location: Iterable[object]) -> str:
    place, *rest = [str(part) for part in location]
    parts = [part.replace("~", "~0").replace("/", "~1") for part in rest]
    if place == "body":
        return "/" + "/".join(parts)
    return "/".join([_PLACES.get(place, place), *parts])


def _response(
    request: Request,
    status: int,
    said: tuple[str, str],
    *,
    retryable: bool = False,
    headers: Mapping[str, str] | None = None,
    fields: Sequence[Mapping[str, str]] | None = None,
) -> Response:
    code, detail = said
    body: dict[str, object] = {
        "type": f"urn:sagabus:error:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": detail,
        "code": code,
        "retryable": retryable,
        "trace_id": trace_id_of(request),
    }
    if fields is not None:
        body["errors"] = fields
    sent = dict(headers or {})
    if status in {408, 429, 503}:
        sent["retry-after"] = str(RETRY_AFTER_S)
    return Response(dump(body), status, sent, PROBLEM_TYPE)
