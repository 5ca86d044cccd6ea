"""An OIDC issuer on loopback: a real HTTP server with a discovery document and keys."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from sagabus_orchestrator.api.identity import OidcIssuer

AUDIENCE = "sagabus-api"
DISCOVERY = "/.well-known/openid-configuration"


@dataclass(frozen=True)
class SigningKey:
    """A private key under a key id."""

    kid: str
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    algorithm: str

    @classmethod
    def rsa(cls, kid: str) -> "SigningKey":
        return cls(kid, rsa.generate_private_key(65537, 2048), "RS256")

    @classmethod
    def ec(cls, kid: str) -> "SigningKey":
        return cls(kid, ec.generate_private_key(ec.SECP256R1()), "ES256")

    def public(self, **more: str) -> dict[str, Any]:
        if isinstance(self.private, rsa.RSAPrivateKey):
            data = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        else:
            data = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**data, "kid": self.kid, **more}


@dataclass
class LocalIssuer:
    """What the server publishes; `asked` counts the requests for its keys."""

    url: str
    keys: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    body: bytes | None = None
    asked: int = 0

    def settings(self, **changes: Any) -> OidcIssuer:
        told = {"name": "corp", "issuer": self.url, "audience": AUDIENCE, **changes}
        return OidcIssuer.model_validate(told)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return good claims; a change to None leaves the claim out."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": now,
            "exp": now + 600,
            "tenants": ["acme"],
            "roles": ["operator"],
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key: SigningKey, **changes: Any) -> str:
        return jwt.encode(
            self.claims(**changes), key.private, key.algorithm, headers={"kid": key.kid}
        )

    def answer(self, path: str) -> tuple[int, bytes]:
        if path == DISCOVERY:
            return 200, json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys"}).encode()
        self.asked += 1
        body = json.dumps({"keys": self.keys}).encode() if self.body is None else self.body
        return self.status, body


@contextmanager
def local_issuer() -> Iterator[LocalIssuer]:
    """Lend an issuer on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = issuer.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = LocalIssuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
