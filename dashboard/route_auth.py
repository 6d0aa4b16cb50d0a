"""Which requests are served: under the dashboard's own names only, and beside the pages after a sign-in."""

import json
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

# Streamlit gives pages the identity, and other routes of its server no public access to it.
from streamlit.web.server.starlette.starlette_auth_routes import _get_cookie_value_from_request
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from dashboard.auth import Roles
from infra.settings.sections import Dashboard
from infra.settings.values import LOOPBACK, is_ours

REFUSED: Final = (
    "403: the dashboard is not served under this host, or a page of another site asked; "
    "ODOGRAPH_DASHBOARD_HOSTS names more hosts\n"
)


def guarded(route: Route, known: Roles | None) -> Route:
    """The route (no coroutine), for those only who have a role; as it is where nobody has to sign in."""
    if known is None:
        return route

    def checked(request: Request) -> Response:
        if known.reader(identity(request)) is None:
            return PlainTextResponse("sign in first\n", 403)
        answer: Response = route.endpoint(request)
        return answer

    return Route(route.path, checked)


def identity(request: Request) -> dict[str, Any]:
    """What a request's signed cookie says; nothing where there is none, or one that was not signed here."""
    found = _get_cookie_value_from_request(request, USER_COOKIE_NAME)
    claims = json.loads(found) if found else {}
    return claims if isinstance(claims, dict) else {}


def served_names(chosen: Dashboard, known: Roles | None) -> frozenset[str]:
    """Loopback's names, the address it listens on, those of the settings, where signing in leads back to."""
    address = () if chosen.address.is_unspecified else (str(chosen.address),)
    signed_in = () if known is None else (known.host,)
    return LOOPBACK.union(address, chosen.host_names, signed_in)


@dataclass(frozen=True, slots=True)
class HostCheck:
    """ASGI middleware: 403 for a request or WebSocket handshake that is not for ``names``."""

    app: ASGIApp
    names: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse before anything else has looked at the request."""
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            if not is_ours(headers.getlist("host"), headers.getlist("origin"), self.names):
                refusal = PlainTextResponse(REFUSED, 403) if scope["type"] == "http" else WebSocketClose(1008)
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)
