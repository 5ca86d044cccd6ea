"""Signs the results of a participant, where its settings say so."""

from __future__ import annotations

from pydantic import Field, FilePath

from sagabus_messages import MessageError, Signer
from sagabus_runtime.errors import SettingsError
from sagabus_runtime.settings import ServiceSettings

__all__ = ["SigningSettings", "signer_of"]


class SigningSettings(ServiceSettings):
    """An Ed25519 key: `openssl genpkey -algorithm ed25519`."""

    signing_key_file: FilePath | None = None
    """PEM file with the private key that signs results; without it they are not signed."""
    signing_key_id: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9._-]{0,63})?$")
    """The name under which the orchestrator knows the public key, for example payment-2026-12."""


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
