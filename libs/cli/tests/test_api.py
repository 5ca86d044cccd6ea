"""What people read when address, key or rights are wrong: what it is, and how to mend it."""

from pathlib import Path

import httpx
import pytest

from sagabus_cli.address import ApiAddress, proved
from sagabus_cli.api import Api
from sagabus_cli.errors import CliError, NotPermitted, NotReachable, UsageError

ADDRESS = ApiAddress("http://api.test", key="sgb_secret", origin="the key in ops.key")


def failure(answer: httpx.Response | Exception) -> CliError:
    def answering(request: httpx.Request) -> httpx.Response:
        del request
        if isinstance(answer, Exception):
            raise answer
        return answer

    with (
        httpx.Client(base_url=ADDRESS.url, transport=httpx.MockTransport(answering)) as http,
        pytest.raises(CliError) as found,
    ):
        Api(http, ADDRESS).get("/v1/sagas")
    assert "sgb_secret" not in found.value.detail
    return found.value


@pytest.mark.parametrize(
    ("status", "code", "mend"),
    [
        (401, "key_invalid", "sagabus keys create"),
        (401, "key_expired", "sagabus keys create"),
        (401, "key_revoked", "sagabus keys create"),
        (401, "token_expired", "get a new token"),
        (403, "permission_denied", "--grant"),
    ],
)
def test_whose_key_is_wrong_and_how_to_mend_it(status: int, code: str, mend: str) -> None:
    told = failure(httpx.Response(status, json={"code": code, "detail": "not so"}))
    assert isinstance(told, NotPermitted)
    assert told.code == code
    for part in ("not so", "the key in ops.key", mend):
        assert part in told.detail


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>welcome</html>"),
        httpx.Response(200, json=[1]),
        httpx.Response(301, headers={"location": "/"}),
        httpx.Response(404, text="not here"),
    ],
    ids=["page", "list", "redirect", "absent"],
)
def test_another_server_at_that_address_is_told(answer: httpx.Response) -> None:
    told = failure(answer)
    assert isinstance(told, NotReachable)
    assert (told.code, "--api or SAGABUS_API" in told.detail) == ("not_the_api", True)


@pytest.mark.parametrize(
    "answer", [httpx.ConnectError("Connection refused"), httpx.ReadTimeout("")], ids=type
)
def test_an_api_that_is_away_is_told_with_its_address(answer: Exception) -> None:
    told = failure(answer)
    assert isinstance(told, NotReachable)
    for part in ("http://api.test", type(answer).__name__, "--direct"):
        assert part in told.detail


def test_an_outage_behind_a_proxy_is_an_outage() -> None:
    told = failure(httpx.Response(502, text="bad gateway"))
    assert (told.code, told.retryable) == ("api_unreachable", True)


@pytest.mark.parametrize(
    "url",
    ["api", "ftp://x", "http://", "http://x:port", "http://x:99999", "http://x y", "http://[x"],
)
def test_what_is_no_address_is_told_before_anything_is_asked(url: str) -> None:
    with pytest.raises(UsageError, match="invalid_address"):
        proved(url, None)


def test_an_address_holds_no_password() -> None:
    with pytest.raises(UsageError, match="invalid_address") as found:
        proved("http://ada:hunter2@x", None)
    assert "hunter2" not in str(found.value)


@pytest.mark.parametrize("text", ["", " \n", "sgb_a\nsgb_b", "sgb_\x00", "sgb_é"])
def test_a_key_that_no_header_can_carry_is_named_by_its_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "ops.key"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"ops\.key") as found:
        proved("http://x", file)
    assert "sgb_" not in str(found.value)
