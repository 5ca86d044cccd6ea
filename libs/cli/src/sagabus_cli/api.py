"""The HTTP API as commands ask it: one request, one JSON object or one error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from sagabus_cli.errors import CliError, NotPermitted, NotReachable, Refused, UsageError
from sagabus_cli.traces import call

if TYPE_CHECKING:
    import httpx

    from sagabus_cli.address import ApiAddress

__all__ = ["Api"]

_TIMEOUT_S: Final = 30.0
_SERVER_ERROR: Final = 500
_CROWDED: Final = frozenset({408, 429})
"""Of these the API says itself whether the same may be sent again."""
_NO_CONTENT: Final = 204
_ERRORS: Final[Mapping[int, type[CliError]]] = {
    400: UsageError,
    401: NotPermitted,
    403: NotPermitted,
    413: UsageError,
    415: UsageError,
}


class Api:
    """Asks an API over one connection; its problems keep their code and become `CliError`s."""

    def __init__(self, http: httpx.Client, address: ApiAddress) -> None:
        self._http = http
        self.address = address

    @classmethod
    @contextmanager
    def at(cls, address: ApiAddress) -> Iterator[Self]:
        """Lend the API of an address."""
        import httpx  # noqa: PLC0415 - slow, and only what goes through the API needs it

        proof = {"x-api-key": address.key or ""}
        if address.token is not None:
            proof = {"authorization": f"Bearer {address.token}"}
        with httpx.Client(base_url=address.url, headers=proof, timeout=_TIMEOUT_S) as http:
            yield cls(http, address)

    def get(
        self, path: str, params: Mapping[str, object] | None = None, wait_s: float = 0.0
    ) -> dict[str, Any]:
        """Read; parameters that are None are left out. `wait_s`: how long a long poll may take."""
        given = {name: value for name, value in (params or {}).items() if value is not None}
        return self._ask("GET", path, params=given, timeout=_TIMEOUT_S + wait_s)

    def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Do something."""
        return self._ask("POST", path, json=dict(body))

    def post_raw(self, path: str, body: bytes) -> dict[str, Any]:
        """Do something with a JSON document that is sent byte for byte."""
        headers = {"content-type": "application/json"}
        return self._ask("POST", path, content=body, headers=headers)

    def put(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Set something."""
        return self._ask("PUT", path, json=dict(body))

    def delete(self, path: str, params: Mapping[str, str]) -> dict[str, Any]:
        """Take something away."""
        return self._ask("DELETE", path, params=dict(params))

    def knows(self, key: str, path: str) -> bool:
        """Return whether an API key counts there, whatever it may do: asked by it alone."""
        with Api.at(replace(self.address, key=key, token=None)) as other:
            try:
                other.get(path)
            except NotPermitted as error:
                return error.code == "permission_denied"
            return True

    def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - httpx's own
        import httpx  # noqa: PLC0415

        try:
            with call(method, str(self._http.base_url)) as attempt:
                headers = {**options.pop("headers", {}), **attempt.headers}
                response = self._http.request(method, path, headers=headers, **options)
                attempt.answered(response.status_code)
        except httpx.TransportError as error:
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise NotReachable("api_unreachable", self.address.unreachable(why)) from error
        said = _object(response)
        if response.is_success and (said or response.status_code == _NO_CONTENT):
            return said
        raise self._error(response.status_code, said)

    def _error(self, status: int, said: Mapping[str, Any]) -> CliError:
        if "code" not in said and status < _SERVER_ERROR:
            return NotReachable("not_the_api", self.address.is_another(status))
        code = str(said.get("code", "api_unreachable"))
        detail = str(said.get("detail", f"the API at {self.address.url} answered {status}"))
        if status >= _SERVER_ERROR or (status in _CROWDED and said.get("retryable") is True):
            trace = f" (trace {said['trace_id']})" if "trace_id" in said else ""
            return NotReachable(code, f"{detail}{trace}")
        fields = [f"\n  {each['pointer']}: {each['detail']}" for each in said.get("errors") or ()]
        told = self.address.explained(code, detail + "".join(fields))
        return _ERRORS.get(status, Refused)(code, told)


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
