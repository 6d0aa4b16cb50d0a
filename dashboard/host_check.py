"""Every route and the socket answer only under the dashboard's own names: one middleware before them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from dashboard.roles import Roles
from infra.settings.sections import Dashboard
from infra.settings.values import LOOPBACK, is_ours

REFUSED: Final = (
    "403: the dashboard is not served under this host, or a page of another site asked; "
    "ODOGRAPH_DASHBOARD_HOSTS names more hosts\n"
)


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
