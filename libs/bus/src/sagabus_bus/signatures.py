"""Signed records in a process: the key that it signs with, and the keys that it believes.

Import it by its own name: whoever only speaks Kafka needs none of the settings behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from prometheus_client import CollectorRegistry, Gauge
from pydantic import Field, FilePath

from sagabus_messages import (
    UNVERIFIED,
    MessageError,
    Record,
    SignatureMode,
    Signer,
    UnknownSigningKey,
    Verifier,
    read_verify_keys,
)
from sagabus_runtime.errors import SettingsError
from sagabus_runtime.logs import get_logger
from sagabus_runtime.settings import ServiceSettings

__all__ = ["KeyRing", "RecordCheck", "SignatureSettings", "SigningSettings", "signer_of"]

log = get_logger()

EVENT_KEYS_READ: Final = "signatures.keys_read"
EVENT_KEYS_UNREADABLE: Final = "signatures.keys_unreadable"
METRIC_UNREADABLE: Final = "sagabus_signature_keys_unreadable"

LOOK_EVERY_S: Final = 5.0
"""After how long at most a key that was taken out of the file counts no longer."""
UNKNOWN_EVERY_S: Final = 1.0
"""How often an unknown key id may cause a look: a flood of forged ones costs one in this time."""

_Version: TypeAlias = tuple[int, int, int] | None


class SignatureSettings(ServiceSettings):
    """Ed25519 signatures of the records that a process takes; see contracts/README.md."""

    signature_mode: SignatureMode = SignatureMode.OFF
    """`accept`: a signature that is there must be good; `require`: every record must have one."""
    signature_keys_file: FilePath | None = None
    """JSON file with the public keys that count; read again within 5 s of a change."""


class SigningSettings(ServiceSettings):
    """An Ed25519 key to sign with: `openssl genpkey -algorithm ed25519`."""

    signing_key_file: FilePath | None = None
    """PEM file with the private key that signs what this process decides; without it, nothing is
    signed. Read at start."""
    signing_key_id: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9._-]{0,63})?$")
    """The name under which readers know the public key, for example payment-2026-12."""


def signer_of(settings: SigningSettings) -> Signer | None:
    """Return what signs, None for nothing. Raises `SettingsError` for a key that does not load."""
    file = settings.signing_key_file
    if (file is None) != (not settings.signing_key_id):
        raise SettingsError(
            "invalid_settings", "SAGABUS_SIGNING_KEY_FILE and SAGABUS_SIGNING_KEY_ID: set both"
        )
    if file is None:
        return None
    try:
        return Signer.of_pem(settings.signing_key_id, file.read_bytes())
    except (OSError, MessageError) as error:
        raise SettingsError(
            "invalid_settings", f"SAGABUS_SIGNING_KEY_FILE {file} is no Ed25519 key in PEM"
        ) from error


class RecordCheck(Protocol):
    """Says whether a record may be believed: a `KeyRing`, or a `Verifier` of fixed keys."""

    @property
    def mode(self) -> SignatureMode:
        """What is asked of records."""

    def check(self, record: Record) -> None:
        """Return if the record may be believed, else raise what `Verifier.check` raises."""


class KeyRing:
    """Checks records by the keys of a file that may change at any time, without a restart.

    The file is looked at when a record is checked and when metrics are read, at most once in 5 s;
    for an unknown key once in a second, so that a key counts as soon as it is made known. A file
    that cannot be read changes nothing: the last good keys count, a log line and a gauge say so.
    """

    def __init__(
        self,
        mode: SignatureMode,
        file: Path,
        registry: CollectorRegistry | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mode = mode
        self._file = file
        self._clock = clock
        self._looked_at = clock()
        self._asked_at = float("-inf")
        self._version = self._present()
        self._unreadable = False
        self._verifier = self._read()
        _gauge(registry).set_function(self._told)

    @classmethod
    def of(
        cls, settings: SignatureSettings, registry: CollectorRegistry | None = None
    ) -> RecordCheck:
        """Return what checks records as the settings say.

        Raises `SettingsError` for keys that are missing or malformed at the start.
        """
        mode, file = settings.signature_mode, settings.signature_keys_file
        if mode is SignatureMode.OFF:
            _gauge(registry)
            return UNVERIFIED
        if file is None:
            raise SettingsError(
                "invalid_settings",
                f"SAGABUS_SIGNATURE_MODE={mode} takes SAGABUS_SIGNATURE_KEYS_FILE",
            )
        try:
            return cls(mode, file, registry)
        except (OSError, MessageError) as error:
            raise SettingsError(
                "invalid_settings", f"SAGABUS_SIGNATURE_KEYS_FILE {file}: {_describe(error)}"
            ) from error

    def check(self, record: Record) -> None:
        """Return if the record may be believed, else raise what `Verifier.check` raises."""
        self._look(LOOK_EVERY_S)
        try:
            self._verifier.check(record)
        except UnknownSigningKey:
            if not self._look_for_unknown():
                raise
            self._verifier.check(record)

    def _look(self, every_s: float) -> bool:
        """Read the file if it has changed and no look was just now; say whether it was read."""
        return self._clock() - self._looked_at >= every_s and self._look_now()

    def _look_for_unknown(self) -> bool:
        """Look for a key that somebody signs with already, however lately others have looked."""
        if self._clock() - self._asked_at < UNKNOWN_EVERY_S:
            return False
        self._asked_at = self._clock()
        return self._look_now()

    def _look_now(self) -> bool:
        self._looked_at = self._clock()
        version = self._present()
        if version == self._version:
            return False
        # Noted before it is read: what changes meanwhile is a new version at the next look.
        self._version = version
        try:
            self._verifier = self._read()
        except (OSError, MessageError) as error:
            self._unreadable = True
            log.warning(EVENT_KEYS_UNREADABLE, file=str(self._file), reason=_describe(error))
            return False
        self._unreadable = False
        log.info(EVENT_KEYS_READ, file=str(self._file), keys=self._verifier.key_ids)
        return True

    def _present(self) -> _Version:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> Verifier:
        return Verifier(self.mode, read_verify_keys(self._file.read_bytes()))

    def _told(self) -> float:
        self._look(LOOK_EVERY_S)
        return float(self._unreadable)


def _gauge(registry: CollectorRegistry | None) -> Gauge:
    return Gauge(
        METRIC_UNREADABLE,
        "1 while the file of public keys cannot be read and the last good keys count",
        registry=registry,
    )


def _describe(error: OSError | MessageError) -> str:
    return error.detail if isinstance(error, MessageError) else "it cannot be read"
