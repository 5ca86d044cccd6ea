"""Migration files are numbered without gaps; verifiers hold no password."""

import base64
from pathlib import Path

import pytest

from sagabus_store import SHARED, Component, MigrationError
from sagabus_store.roles import scram_verifier


def test_the_shared_line_starts_with_the_inbox() -> None:
    labels = [step.label for step in SHARED.migrations]
    assert labels[:2] == ["shared/0001_inbox", "shared/0002_outbox"]


@pytest.mark.parametrize("names", [["0002_b.sql"], ["0001_a.sql", "0003_c.sql"]])
def test_a_gap_is_refused(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "gappy"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in names:
        (package / name).write_text("select 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "gappy", raising=False)
    with pytest.raises(MigrationError, match="migrations_not_consecutive"):
        _ = Component("gappy", "gappy", ".").migrations


def test_a_verifier_is_salted_repeatable_and_holds_no_password() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    assert scram_verifier("pencil", salt) == scram_verifier("pencil", salt)
    assert scram_verifier("pencil", salt).startswith("SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==")
    assert "pencil" not in scram_verifier("pencil")
    with pytest.raises(MigrationError):
        scram_verifier("")
