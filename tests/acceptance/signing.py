"""Keys of the running system: orchestrator and participants sign, and believe nothing unsigned."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sagabus_messages import OutboxRow, Signer, source_of

__all__ = ["Keys"]

WRITERS = ("orchestrator", "inventory", "payment", "shipping")


@dataclass(frozen=True, slots=True)
class Keys:
    """A key of each writer in files below `folder`, and one file with all public ones."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Keys":
        folder.mkdir(parents=True, exist_ok=True)
        public = []
        for writer in WRITERS:
            key = Ed25519PrivateKey.generate()
            pem = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            (folder / f"{writer}.pem").write_bytes(pem)
            raw = base64.b64encode(key.public_key().public_bytes_raw()).decode()
            public.append({"id": f"{writer}-1", "source": source_of(writer), "public_key": raw})
        (folder / "public.json").write_text(json.dumps({"keys": public}))
        return cls(folder.resolve())

    def settings(self) -> dict[str, dict[str, str]]:
        """Return what each service is told."""
        told = {writer: self.environment(writer) for writer in WRITERS}
        return {**told, "api": told["orchestrator"]}

    def environment(self, writer: str) -> dict[str, str]:
        """Return what a process is told that signs for a writer."""
        return {
            "SAGABUS_SIGNATURE_MODE": "require",
            "SAGABUS_SIGNATURE_KEYS_FILE": str(self.folder / "public.json"),
            "SAGABUS_SIGNING_KEY_FILE": str(self.folder / f"{writer}.pem"),
            "SAGABUS_SIGNING_KEY_ID": f"{writer}-1",
        }

    def sign(self, row: OutboxRow, writer: str) -> OutboxRow:
        """Sign a record with the key of a writer."""
        pem = (self.folder / f"{writer}.pem").read_bytes()
        return Signer.of_pem(f"{writer}-1", pem).sign(row)
