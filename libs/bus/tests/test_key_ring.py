"""Public keys that change while a process runs: made known, forgotten, broken, mended."""

import base64
import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from sagabus_bus.signatures import KeyRing, SignatureSettings
from sagabus_messages import MessageError, OutboxRow, Record, SignatureMode, Signer
from sagabus_runtime import SettingsError

SOURCE = "urn:sagabus:payment"
OLD, NEW = (Signer.of(f"payment-{n}", bytes([n]) * 32) for n in (1, 2))
ROW = OutboxRow("sagabus.result.payment.v1", b"saga", (("ce_source", SOURCE.encode()),), b"{}")


class World:
    """A ring on a file, with a clock that the test moves."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.now = 0.0
        self.registry = CollectorRegistry()
        self.write(OLD)
        self.ring = KeyRing(SignatureMode.REQUIRE, file, self.registry, lambda: self.now)

    def write(self, *signers: Signer) -> None:
        keys = [signer.verify_key(SOURCE) for signer in signers]
        listed = [
            {
                "id": key.id,
                "source": key.source,
                "public_key": base64.b64encode(key.public_key).decode(),
            }
            for key in keys
        ]
        self.replace(json.dumps({"keys": listed}))

    def replace(self, text: str) -> None:
        """Put another file in place, as rename and the volumes of Kubernetes do."""
        other = self.file.with_suffix(".new")
        other.write_text(text)
        other.replace(self.file)

    def verdict(self, signer: Signer) -> str:
        row = signer.sign(ROW)
        try:
            self.ring.check(Record(row.topic, 0, 0, row.key, row.value, row.headers, 0))
        except MessageError as error:
            return error.code
        return "believed"

    def unreadable(self) -> float | None:
        return self.registry.get_sample_value("sagabus_signature_keys_unreadable")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "keys.json")


def test_a_key_counts_once_it_is_made_known_and_no_longer_than_it_is(world: World) -> None:
    assert [world.verdict(signer) for signer in (OLD, NEW)] == ["believed", "signature_invalid"]
    world.write(OLD, NEW)
    world.now += 1
    assert [world.verdict(signer) for signer in (NEW, OLD)] == ["believed", "believed"]
    world.write(NEW)
    world.now += 5
    assert [world.verdict(signer) for signer in (OLD, NEW)] == ["signature_invalid", "believed"]


def test_unknown_keys_cause_a_look_a_second(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    present = world.ring._present

    def counted() -> tuple[int, int, int] | None:
        looks.append(world.now)
        return present()

    monkeypatch.setattr(world.ring, "_present", counted)
    for step in range(100):
        world.now = 3 + step / 20
        assert world.verdict(NEW) == "signature_invalid"
    assert len(looks) == 5


@pytest.mark.parametrize("text", ["", "{", '{"keys": [{"id": "payment-2"}]}', None], ids=str)
def test_a_broken_file_changes_nothing_and_is_told(
    world: World, text: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is None:
        world.file.unlink()
    else:
        world.replace(text)
    for _ in range(3):
        world.now += 5
        assert world.verdict(OLD) == "believed"
    assert world.unreadable() == 1
    assert capsys.readouterr().out.count("signatures.keys_unreadable") == 1
    world.write(NEW)
    world.now += 5
    assert world.verdict(NEW) == "believed"
    assert world.unreadable() == 0


def test_reading_the_metrics_finds_a_broken_file_where_no_record_comes(world: World) -> None:
    world.replace("{")
    assert world.unreadable() == 0, "looked at just now"
    world.now += 5
    assert world.unreadable() == 1


def test_a_file_that_is_wrong_at_the_start_stops_the_process(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text("{")
    wrong = (
        SignatureSettings(signature_mode=SignatureMode.REQUIRE),
        SignatureSettings(signature_mode=SignatureMode.ACCEPT, signature_keys_file=file),
    )
    for settings in wrong:
        with pytest.raises(SettingsError, match="SAGABUS_SIGNATURE_KEYS_FILE"):
            KeyRing.of(settings)
    assert KeyRing.of(SignatureSettings()).mode is SignatureMode.OFF
