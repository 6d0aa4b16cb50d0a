"""Who a reader is and what they may do: the file of roles, signing in before the pages, who may ask routes.

The file is TOML, readable by its owner only: ``[auth]`` is Streamlit's own table for OpenID Connect,
``[roles]`` says who is what. Requests are served under the dashboard's own names only.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import streamlit as st
import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

# Streamlit gives pages the identity, and other routes of its server no public access to it.
from streamlit.web.server.starlette.starlette_auth_routes import _get_cookie_value_from_request
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from dashboard.query_cache import SESSION_SCOPE, VIEWED, VehicleScope, settings
from dashboard.shared import text
from infra.clients.log import refused
from infra.contract.errors import ConfigError, ServiceError
from infra.settings.files import read_secret
from infra.settings.sections import Dashboard, listed
from infra.settings.settings import endpoints
from infra.settings.values import LOOPBACK, host_name, is_ours
from infra.sql import queries

Role = Literal["driver", "viewer", "dispatcher", "admin"]
Action = Literal["alerts", "evidence"]

OPTION: Final = "ODOGRAPH_DASHBOARD_OIDC"
MAY: Final[Mapping[Role, tuple[Action, ...]]] = MappingProxyType(
    {"driver": (), "viewer": (), "dispatcher": ("alerts",), "admin": ("alerts", "evidence")}
)
"""alerts: acknowledge, silence, clear. evidence: take crash bundles out."""
EVERYBODY: Final = "*"
LOCAL_WORDS: Final = (
    "Local only: no sign-in is set up. Whoever can open this page on this machine can act, under the name "
    "they give."
)
REFUSED: Final = (
    "403: the dashboard is not served under this host, or a page of another site asked; "
    "ODOGRAPH_DASHBOARD_HOSTS names more hosts\n"
)
UNREADABLE: Final = (
    "The file of roles cannot be read: nobody is let in until whoever runs this service mends it."
)
HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
"""Not for loopback's names: it would hold for every port of the reader's own machine."""
_NEEDED: Final = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
_COOKIE_SECRET: Final = 32  # characters at least: whoever guesses it signs themselves in as anybody
_HERE: Final = Path(__file__).parent


class Reader(NamedTuple):
    """Who looks at the page. ``name`` is empty where nobody signed in: then the page is local only."""

    name: str
    role: Role
    local: bool
    scope: VehicleScope | None = None  # whose vehicles they see; None: all

    def may(self, action: Action) -> bool:
        return action in MAY[self.role]


LOCAL: Final = Reader("", "admin", local=True)  # without sign-in: whoever can open the page on this machine


class Roles(NamedTuple):
    """Names by role; ``claim`` of an identity is compared with them, and is what the history calls it."""

    claim: str
    named: Mapping[Role, frozenset[str]]
    host: str = ""  # where signing in leads back to, so a name under which the dashboard is served
    fleet_claim: str = ""  # names the fleets whose vehicles somebody sees; empty: all see all
    operators: frozenset[str] = frozenset()  # who sees all vehicles all the same
    fleets: Mapping[str, Sequence[str]] = MappingProxyType({})  # by name, in place of the claim

    def reader(self, claims: Mapping[str, Any]) -> Reader | None:
        """Who has signed in, with the highest role that names them; None: nobody that may look."""
        name = claims.get(self.claim)
        # an address that the provider has not verified may be anybody's
        verified = self.claim != "email" or claims.get("email_verified") is True
        if not _is_name(name) or not verified:
            return None
        order: tuple[Role, ...] = ("admin", "dispatcher", "viewer", "driver")
        of_all = next((role for role in order if EVERYBODY in self.named[role]), None)
        own = next((role for role in order if name in self.named[role]), of_all)
        if own == "driver" or own is None:  # who is named as a driver is no viewer for being somebody
            return None if own is None else Reader(str(name), own, False, VehicleScope(driver=str(name)))
        role = own if of_all is None else min(own, of_all, key=order.index)
        fleets = self.fleets.get(str(name), claims.get(self.fleet_claim))
        return Reader(str(name), role, False, self._scope(str(name), fleets))

    def _scope(self, name: str, fleets: Any) -> VehicleScope | None:
        if not (self.fleet_claim or self.fleets) or {name, EVERYBODY} & self.operators:
            return None
        given = fleets if isinstance(fleets, list) else [fleets]
        return VehicleScope(tuple(sorted({str(fleet) for fleet in given if _is_name(fleet)})))


def load_roles(path: Path) -> Roles:
    """The file's roles, checked with the rest of it. Raises ConfigError."""

    def wrong(words: object) -> ConfigError:
        return ConfigError(f"{OPTION} {path}: {words}")

    try:
        document = tomllib.loads(read_secret(path, OPTION))
    except tomllib.TOMLDecodeError as error:
        raise wrong(error) from error
    given: dict[str, Any] = {"auth": None, "roles": None, "fleets": {}} | document
    auth, roles, fleets = given["auth"], given["roles"], given["fleets"]
    if not all(isinstance(table, dict) for table in (auth, roles, fleets)):
        raise wrong("tables [auth] and [roles] are wanted, and [fleets] is one")
    missing = [key for key in _NEEDED if not _is_name(auth.get(key))]
    if missing:
        raise wrong(f"[auth] lacks {', '.join(missing)}")
    if len(auth["cookie_secret"]) < _COOKIE_SECRET:
        raise wrong(f"cookie_secret is shorter than {_COOKIE_SECRET} characters")
    try:
        host = urlsplit(auth["redirect_uri"]).hostname
    except ValueError:
        host = None
    if not host:
        raise wrong("redirect_uri is no address, https://host/oauth2callback")
    unknown = sorted(set(roles) - {"claim", "fleet_claim", "operator", *MAY})
    claim, lists = roles.get("claim", "email"), {role: roles.get(role, []) for role in (*MAY, "operator")}
    each = [*lists.items(), *fleets.items()]
    odd = [r for r, names in each if type(names) is not list or not all(map(_is_name, names))]
    fleet_claim = roles.get("fleet_claim", "")
    if unknown or odd or not _is_name(claim) or not isinstance(fleet_claim, str):
        named = ", ".join([*unknown, *odd]) or "claim"
        raise wrong(f"[roles] {named}: claim, fleet_claim, operator, {', '.join(MAY)} are known")
    operators = frozenset(lists.pop("operator"))
    if not any(lists.values()):
        raise wrong("[roles] names nobody")
    named_as = {role: frozenset(lists[role]) for role in MAY}
    return Roles(claim, named_as, host, fleet_claim, operators, fleets)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def known_roles() -> Roles | None:
    """Who may do what, where signing in is set up, as the file says now. Raises ConfigError, OSError."""
    file = settings().dashboard.oidc
    return None if file is None else _roles_at(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _roles_at(file: Path, _changed_ns: int) -> Roles:
    return load_roles(file)


def gate() -> None:
    """Stop here whoever has to sign in and has not; say below the navigation who is here."""
    try:
        known = known_roles()
    except (ConfigError, OSError) as error:
        structlog.get_logger("dashboard").error("roles cannot be read", problem=str(error))
        _wait(UNREADABLE)
        st.stop()
    if known is None:
        st.sidebar.caption(LOCAL_WORDS)
        return
    if not st.user.is_logged_in:
        st.header("Odograph", anchor=False)
        st.write("Sign in to see the fleet.")
        st.button("Sign in", on_click=st.login, icon=":material/login:", type="primary")
        st.html(_HERE / "keep_address.html", unsafe_allow_javascript=True)
        st.stop()
    claims = st.user.to_dict()
    found = known.reader(claims)
    if found is None:
        name = str(claims.get("email") or claims.get("sub"))
        _wait(f"{text.plain(name)} is signed in and has no role here. Ask whoever runs this service.", known)
        st.button("Sign out", on_click=st.logout, icon=":material/logout:")
        _once("sign-in refused", None, "", name)  # whose words nobody vouches for
        st.stop()
    if "returned" not in st.session_state:
        st.session_state["returned"] = True
        st.html(_HERE / "return_to_address.html", unsafe_allow_javascript=True)
    st.session_state[SESSION_SCOPE] = found.scope
    _once("signed in", None, found.name)
    with st.sidebar:
        st.text(f"{found.name}\n{found.role}")
        st.button("Sign out", on_click=st.logout, icon=":material/logout:", type="tertiary")


def _wait(words: str, known: Roles | None = None) -> None:
    """Say why there is nothing to see; the page is drawn anew when the roles are others than those known."""
    st.header("Odograph", anchor=False)
    st.error(words)

    def look() -> None:
        with suppress(ConfigError, OSError):
            if known_roles() != known:
                st.rerun()

    st.fragment(look, run_every=settings().dashboard.refresh_s)()


def ended() -> bool:
    """Whether this session's reader may look no more, or at other vehicles, than when its page was drawn.

    So it is while the file cannot be read: the page says so when it is drawn anew (``gate``).
    """
    try:
        known = known_roles()
    except (ConfigError, OSError):
        return True
    found = None if known is None else known.reader(st.user.to_dict())
    seen = st.session_state.get(SESSION_SCOPE)
    return known is not None and (found is None or found.scope != seen)


def viewed(vehicle_id: str) -> None:
    """Note in the audit log that this session looks at a vehicle; files of the page are of it too."""
    st.session_state[VIEWED] = vehicle_id
    _once("vehicle viewed", vehicle_id, reader().name)


def not_theirs(who: Reader, what: str) -> None:
    """Say in the log that somebody asked for what others see, or nobody; an operator sees all."""
    if who.scope is not None:
        refused(f"{what}: not one of theirs", who.name)


def page_not_theirs(what: str, named: object) -> None:
    """Say so of a page by what its address names, once in a session."""
    asked: set[tuple[str, str]] = st.session_state.setdefault("not theirs", set())
    if (one := (what, str(named))) not in asked:
        asked.add(one)
        not_theirs(reader(), f"{what}'s page")


def _once(action: str, vehicle_id: str | None, name: str, detail: str = "dashboard") -> None:
    """Note what this session does, once; while the database is away at a later run of the page."""
    done: set[tuple[str, str | None]] = st.session_state.setdefault("noted", set())
    if (action, vehicle_id) not in done:
        with suppress(ServiceError):
            note(action, vehicle_id, detail, name)
            done.add((action, vehicle_id))


def note(action: str, vehicle_id: str | None, detail: str, name: str) -> None:
    """Note in the audit log what somebody does here; an empty name: nobody signs in. Raises ServiceError."""
    url = endpoints(settings(), ("db_dispatch_url",)).db_dispatch_url
    queries.note(url, action, vehicle_id, detail, name)


def reader() -> Reader:
    """Who looks at the page, determined anew at each action."""
    known = known_roles()
    found = LOCAL if known is None else known.reader(st.user.to_dict())
    if found is None:
        st.stop()
    return found


def why_not(who: Reader, action: Action) -> str:
    """Why a reader may not do something, in words."""
    wanted = " or ".join(role for role, actions in MAY.items() if action in actions)
    return f"You are here as {who.role}; this takes {wanted}."


def name_field(who: Reader, key: str) -> str:
    """Under which name something is done: that of who signed in, else the one given here."""
    if not who.local:
        st.text(f"as {who.name}")
        return who.name
    given = st.text_input("Your name", value=st.session_state.get("who", ""), key=key, max_chars=80)
    return str(given).strip()


def identity(request: Request) -> dict[str, Any]:
    """What a request's signed cookie says; nothing where there is none, or one that was not signed here."""
    found = _get_cookie_value_from_request(request, USER_COOKIE_NAME)
    claims = json.loads(found) if found else {}
    return claims if isinstance(claims, dict) else {}


def served_names(chosen: Dashboard, known: Roles | None) -> frozenset[str]:
    """Loopback's names, the address it listens on, those of the settings, where signing in leads back to."""
    address = () if chosen.address.is_unspecified else (str(chosen.address),)
    signed_in = () if known is None else (known.host,)
    return LOOPBACK.union(address, listed(chosen.hosts), signed_in)


@dataclass(frozen=True, slots=True)
class HostCheck:
    """ASGI middleware: 403 for a request or WebSocket handshake that is not for ``names``.

    ``secure``: TLS is spoken, so cookies are for it alone, and browsers keep to it at names beyond loopback.
    """

    app: ASGIApp
    names: frozenset[str]
    secure: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse before anything else has looked at the request."""
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            if not is_ours(headers.getlist("host"), headers.getlist("origin"), self.names):
                told = (f"{name} {', '.join(headers.getlist(name)) or '-'}" for name in ("host", "origin"))
                refused(f"request: {' '.join(told)}")
                refusal = PlainTextResponse(REFUSED, 403) if scope["type"] == "http" else WebSocketClose(1008)
                await refusal(scope, receive, send)
                return
            if self.secure:
                send = partial(_secured, send, host_name(headers["host"]) not in LOOPBACK)
        await self.app(scope, receive, send)


async def _secured(send: Send, keep: bool, message: Message) -> None:
    """Cookies only over TLS: Streamlit leaves the one of who signed in open. ``keep``: HSTS."""
    if message["type"] == "http.response.start":
        headers = []
        for name, value in message["headers"]:
            bare = name == b"set-cookie" and b"; secure" not in value.lower()
            headers.append((name, value + b"; Secure" if bare else value))
        message = {**message, "headers": headers + [HSTS] * keep}
    await send(message)
