"""A Postgres with TLS for a test: certificates are made at run time, beside its data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sagabus_testkit.stack.authority import make_authority
from sagabus_testkit.stack.postgres_install import Identity

__all__ = ["CERTIFIED", "SecureDoor", "open_secure_door"]

CERTIFIED: Final = "certified"
"""The role that shows a certificate instead of a password."""


@dataclass(frozen=True, slots=True)
class SecureDoor:
    """What clients need to come in: they trust the server by `ca_file`.

    `client_file` is the certificate of the role `CERTIFIED`, with its key.
    """

    ca_file: Path
    client_file: Path


def open_secure_door(
    files: Path, data: Path, identity: Identity
) -> tuple[SecureDoor, Mapping[str, str]]:
    """Write certificates, and return the door with the server's settings of it.

    The server reads its files below `data`, which may belong to another user than the clients'.
    """
    authority = make_authority()
    door = SecureDoor(files / "postgres-ca.pem", files / "postgres-client.pem")
    door.ca_file.write_bytes(authority.certificate_pem)
    door.client_file.write_bytes(authority.issue(CERTIFIED))
    for name, text in {
        "server.pem": authority.issue("postgres"),
        "ca.pem": authority.certificate_pem,
    }.items():
        _write(data / name, text, identity)
    rules = data / "pg_hba.conf"
    rules.write_text(f"hostssl all {CERTIFIED} 127.0.0.1/32 cert\n{rules.read_text()}")
    return door, {
        "ssl": "on",
        "ssl_cert_file": str(data / "server.pem"),
        "ssl_key_file": str(data / "server.pem"),
        "ssl_ca_file": str(data / "ca.pem"),
    }


def _write(path: Path, text: bytes, identity: Identity) -> None:
    path.write_bytes(text)
    path.chmod(0o600)  # else the server refuses its key
    if identity.owner is not None:
        os.chown(path, *identity.owner)
