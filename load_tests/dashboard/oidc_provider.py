"""An OpenID Connect provider on loopback that signs in whoever it is told to, without asking."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID = "odograph-test"
CLIENT_SECRET = "not-a-secret"
METADATA = "/.well-known/openid-configuration"


@dataclass(slots=True)
class Provider:
    """``claims`` are those of the next person who signs in."""

    base: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"}))
    codes: dict[str, dict[str, Any]] = field(default_factory=dict)
    signed_in: int = 0
    """How often somebody did."""

    def metadata(self) -> dict[str, Any]:
        """What the client asks for first."""
        return {
            "issuer": self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "jwks_uri": f"{self.base}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def authorized(self, asked: dict[str, str]) -> str:
        """Where the browser goes on to, with a code for the claims of this moment."""
        code = secrets.token_urlsafe(16)
        self.codes[code] = self.claims | {"nonce": asked["nonce"]}
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, code: str) -> dict[str, Any]:
        """The identity that a code stands for, once."""
        now, self.signed_in = int(time.time()), self.signed_in + 1
        claims = self.codes.pop(code) | {"iss": self.base, "aud": CLIENT_ID, "iat": now, "exp": now + 600}
        signed = jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.key)
        return {"access_token": "none", "token_type": "Bearer", "expires_in": 600, "id_token": signed}


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, provider: Provider, *rest: Any) -> None:
        self.provider = provider
        super().__init__(*rest)

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(address.query).items()}
            self.send_response(302)
            self.send_header("Location", self.provider.authorized(asked))
            self.end_headers()
            return
        keys = {"keys": [self.provider.key.as_dict(private=False)]}
        self._answer(keys if address.path == "/jwks" else self.provider.metadata())

    def do_POST(self) -> None:
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._answer(self.provider.token(body["code"][0]))

    def _answer(self, value: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *args: Any) -> None:
        """Nothing on standard error."""


@contextmanager
def provider() -> Iterator[Provider]:
    """The provider on a free port while the block runs."""
    made = Provider()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, made))
    made.base = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def settings_file(issuer: Provider, dashboard: str, roles: str) -> str:
    """The file of sign-in for a dashboard at this address; ``roles`` is its [roles] table's body."""
    return f"""
[auth]
redirect_uri = "{dashboard}/oauth2callback"
cookie_secret = "{secrets.token_urlsafe(32)}"
client_id = "{CLIENT_ID}"
client_secret = "{CLIENT_SECRET}"
server_metadata_url = "{issuer.base}{METADATA}"

[roles]
{roles}
"""
