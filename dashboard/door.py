"""What is served beside the pages asks for the same sign-in as they do."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

# Streamlit gives pages the identity, and other routes of its server no public way to it.
from streamlit.web.server.starlette.starlette_auth_routes import _get_cookie_value_from_request
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from dashboard.roles import Roles

REFUSED: Final = "sign in first\n"


def guarded(route: Route, known: Roles | None) -> Route:
    """The route, for those only who have signed in and have a role; as it is where nobody has to."""
    if known is None:
        return route
    return Route(route.path, partial(_asked, route=route, known=known))


async def _asked(request: Request, route: Route, known: Roles) -> Response:
    if known.reader(identity(request)) is None:
        return PlainTextResponse(REFUSED, 403)
    answer: Response = await route.endpoint(request)
    return answer


def identity(request: Request) -> dict[str, Any]:
    """What a request's signed cookie says; nothing where there is none, or one that was not signed here."""
    found = _get_cookie_value_from_request(request, USER_COOKIE_NAME)
    claims = json.loads(found) if found else {}
    return claims if isinstance(claims, dict) else {}
