"""Whose results count, and with which key commands are signed: in every process that decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from sagabus_bus.signatures import (
    KeyRing,
    RecordCheck,
    SignatureSettings,
    SigningSettings,
    signer_of,
)
from sagabus_messages import (
    UNVERIFIED,
    MessageError,
    OutboxRow,
    Record,
    SignatureMode,
    Signer,
    UnknownSigningKey,
    Verifier,
    source_of,
)

__all__ = ["SOURCE", "UNSIGNED", "RecordSignatureSettings", "Signatures"]

SOURCE: Final = source_of("orchestrator")
"""The ce_source of what the orchestrator decides, and of the keys that it signs with."""


class RecordSignatureSettings(SignatureSettings, SigningSettings):
    """Signatures of results and commands; the same in orchestrator, API and `sagabus --direct`."""


@dataclass(frozen=True, slots=True)
class Signatures:
    """What checks results and what signs commands in this process; neither by default."""

    results: RecordCheck = UNVERIFIED
    signer: Signer | None = None

    @classmethod
    def of(
        cls, settings: RecordSignatureSettings, registry: CollectorRegistry | None = None
    ) -> Signatures:
        """Return what the settings say. Raises `SettingsError` for keys that do not load."""
        return cls(KeyRing.of(settings, registry), signer_of(settings))

    def sign_edited(self, row: OutboxRow, original: Record) -> OutboxRow:
        """Sign a command that takes the place of `original`, which must be ours.

        Otherwise a forged command, turned away by its participant, would become a genuine one by
        being edited. Raises `MessageError` (`signature_missing`, `signature_invalid`).
        """
        if self.signer is None:
            return row
        own = Verifier(SignatureMode.REQUIRE, [self.signer.verify_key(SOURCE)])
        try:
            own.check(original)
        except UnknownSigningKey:
            # Signed before the key was replaced: then the file of public keys knows the old one.
            if self.results.mode is SignatureMode.OFF:
                raise
            self.results.check(original)
        if original.header("ce_source") != SOURCE.encode():
            raise MessageError("signature_invalid", "commands are signed by the orchestrator alone")
        return self.signer.sign(row)


UNSIGNED: Final = Signatures()
"""Looks at no signature and makes none."""
