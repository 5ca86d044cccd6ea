"""What SAGABUS_OIDC_ISSUERS may say: told at start, by the variable's name."""

import json
from typing import Any

import pytest

from sagabus_orchestrator.api.identity import IdentitySettings, Role
from sagabus_runtime import SettingsError, load

CORP = {"name": "corp", "issuer": "https://corp.example", "audience": "sagabus"}


def settings(monkeypatch: pytest.MonkeyPatch, text: str) -> IdentitySettings:
    monkeypatch.setenv("SAGABUS_OIDC_ISSUERS", text)
    return load(IdentitySettings)


def test_several_issuers(monkeypatch: pytest.MonkeyPatch) -> None:
    partner = {**CORP, "name": "partner", "issuer": "https://p.example", "roles": {"a": ["viewer"]}}
    found = settings(monkeypatch, json.dumps([CORP, partner])).oidc_issuers
    assert [issuer.name for issuer in found] == ["corp", "partner"]
    assert found[0].algorithms == ("RS256", "ES256")
    assert found[1].roles == {"a": (Role.VIEWER,)}


def test_without_an_issuer_no_token_counts() -> None:
    assert load(IdentitySettings).oidc_issuers == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "http://corp.example"},
        {"issuer": "ftp://127.0.0.1"},
        {"issuer": "corp"},
        {"jwks_url": "http://corp.example/keys"},
        {"algorithms": ["none"]},
        {"algorithms": ["HS256"]},
        {"algorithms": []},
        {"audience": ""},
        {"name": "Corp@x"},
        {"roles": {"sre": ["root"]}},
        {"leeway_s": 3_600},
        {"jwks_min_interval_s": 0},
        {"colour": "red"},
    ],
    ids=str,
)
def test_what_is_not_safe_is_refused(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    with pytest.raises(SettingsError, match="SAGABUS_OIDC_ISSUERS is wrong"):
        settings(monkeypatch, json.dumps([{**CORP, **changes}]))


@pytest.mark.parametrize("field", ["name", "issuer"])
def test_issuers_differ_in_name_and_url(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    other = {**CORP, "name": "other", "issuer": "https://other.example", field: CORP[field]}
    with pytest.raises(SettingsError, match=f"the same {field}"):
        settings(monkeypatch, json.dumps([CORP, other]))


@pytest.mark.parametrize("text", ["{", "7", '"x"', "{}", '[{"name": "corp"}]'])
def test_what_is_no_list_of_issuers(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(SettingsError, match="SAGABUS_OIDC_ISSUERS"):
        settings(monkeypatch, text)
