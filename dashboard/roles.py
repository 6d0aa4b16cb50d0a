"""Who a reader is and what they may do; pure but for reading the file.

The file of sign-in is TOML, readable by its owner only: ``[auth]`` is Streamlit's own table for OpenID
Connect, ``[roles]`` says who is what.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from infra.contract.errors import ConfigError
from infra.settings.files import read_secret

Role = Literal["viewer", "dispatcher", "admin"]
Deed = Literal["alerts", "evidence"]

OPTION: Final = "ODOGRAPH_DASHBOARD_OIDC"
MAY: Final[Mapping[Role, frozenset[Deed]]] = MappingProxyType(
    {
        "viewer": frozenset(),
        "dispatcher": frozenset({"alerts"}),
        "admin": frozenset({"alerts", "evidence"}),
    }
)
"""alerts: acknowledge, silence, clear. evidence: take crash bundles out."""
EVERYBODY: Final = "*"
_NEEDED: Final = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
_COOKIE_SECRET: Final = 32
"""Characters at least: whoever guesses it signs themselves in as anybody."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who looks at the page. ``name`` is empty where nobody signed in: then the page is local only."""

    name: str
    role: Role
    local: bool

    def may(self, deed: Deed) -> bool:
        """Whether they may do it."""
        return deed in MAY[self.role]


LOCAL: Final = Reader("", "admin", local=True)
"""Without sign-in: whoever can open the page on this machine."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Names by role; ``claim`` of an identity is compared with them, and is what the history calls it."""

    claim: str
    named: Mapping[Role, frozenset[str]]
    host: str = ""
    """Where signing in leads back to, so a name under which the dashboard is served."""

    def reader(self, claims: Mapping[str, Any]) -> Reader | None:
        """Who has signed in, with the highest role that names them; None: nobody that may look."""
        name = claims.get(self.claim)
        if not isinstance(name, str) or not name or not self._vouched(claims):
            return None
        for role in ("admin", "dispatcher", "viewer"):
            if name in self.named[role] or EVERYBODY in self.named[role]:
                return Reader(name, role, local=False)
        return None

    def _vouched(self, claims: Mapping[str, Any]) -> bool:
        """An address that the provider has not verified may be anybody's."""
        return self.claim != "email" or claims.get("email_verified") is True


def load_roles(path: Path) -> Roles:
    """The file's roles, checked with the rest of it. Raises ConfigError."""
    try:
        document = tomllib.loads(read_secret(path, OPTION))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{OPTION} {path}: {error}") from error
    auth, roles = document.get("auth"), document.get("roles")
    if not isinstance(auth, dict) or not isinstance(roles, dict):
        raise ConfigError(f"{OPTION} {path}: tables [auth] and [roles] are wanted")
    missing = [key for key in _NEEDED if not isinstance(auth.get(key), str) or not auth[key]]
    if missing:
        raise ConfigError(f"{OPTION} {path}: [auth] lacks {', '.join(missing)}")
    if len(auth["cookie_secret"]) < _COOKIE_SECRET:
        raise ConfigError(f"{OPTION} {path}: cookie_secret is shorter than {_COOKIE_SECRET} characters")
    return _roles(path, roles, _host_of(path, auth["redirect_uri"]))


def _host_of(path: Path, redirect_uri: str) -> str:
    try:
        host = urlsplit(redirect_uri).hostname
    except ValueError:
        host = None
    if not host:
        raise ConfigError(f"{OPTION} {path}: redirect_uri is no address, https://host/oauth2callback")
    return host


def _roles(path: Path, table: Mapping[str, Any], host: str) -> Roles:
    unknown = sorted(set(table) - {"claim", *MAY})
    claim = table.get("claim", "email")
    lists = {role: table.get(role, []) for role in MAY}
    wrong = [r for r, names in lists.items() if type(names) is not list or not all(map(_is_name, names))]
    if unknown or wrong or not _is_name(claim):
        named = ", ".join([*unknown, *wrong]) or "claim"
        raise ConfigError(f"{OPTION} {path}: [roles] {named}: claim, viewer, dispatcher and admin are known")
    if not any(lists.values()):
        raise ConfigError(f"{OPTION} {path}: [roles] names nobody")
    return Roles(claim, MappingProxyType({role: frozenset(names) for role, names in lists.items()}), host)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
