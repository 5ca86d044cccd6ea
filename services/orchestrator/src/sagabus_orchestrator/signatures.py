"""Whether results must be signed, and by whose keys: settings of every process that takes them."""

from __future__ import annotations

from pydantic import FilePath

from sagabus_messages import MessageError, SignatureMode, Verifier, read_verify_keys
from sagabus_runtime import ServiceSettings, SettingsError

__all__ = ["SignatureSettings", "verifier_of"]


class SignatureSettings(ServiceSettings):
    """Ed25519 signatures of results; the same in orchestrator, API and `sagabus dlt`."""

    signature_mode: SignatureMode = SignatureMode.OFF
    """`accept`: a signature that is there must be good; `require`: every result must have one."""
    signature_keys_file: FilePath | None = None
    """JSON file with the public keys of participants, read at start: contracts/README.md."""


def verifier_of(settings: SignatureSettings) -> Verifier:
    """Return what checks results. Raises `SettingsError` for keys that are missing or malformed."""
    mode, file = settings.signature_mode, settings.signature_keys_file
    if mode is SignatureMode.OFF:
        return Verifier(mode)
    if file is None:
        raise SettingsError(
            "invalid_settings", f"SAGABUS_SIGNATURE_MODE={mode} takes SAGABUS_SIGNATURE_KEYS_FILE"
        )
    try:
        return Verifier(mode, read_verify_keys(file.read_bytes()))
    except (OSError, MessageError) as error:
        detail = error.detail if isinstance(error, MessageError) else "cannot be read"
        raise SettingsError(
            "invalid_settings", f"SAGABUS_SIGNATURE_KEYS_FILE {file}: {detail}"
        ) from error
