"""The address of a crash record's bundle: made when it is asked for, and noted before it leaves.

Streamlit's own way (a download button with a function) keeps what the function made only until two parts of
any reader's page have run: with many readers it was gone before the browser fetched it.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Final
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dashboard import roles
from dashboard.crash_queries import Key
from dashboard.door import identity
from infra.contract.errors import ConfigError, ServiceError
from infra.settings import settings as contract
from stream_jobs.crashes import bundle, tables
from stream_jobs.crashes.report import one_line

PATH: Final = "/crash/bundle"
ELSEWHERE: Final = "this address is for the dashboard's own pages\n"


def address(key: Key, name: str) -> str:
    """Where a reader of this name has the bundle from; where people sign in, who did counts and not this."""
    vehicle_id, boot_id, crash_id = key
    return f"{PATH}?{urlencode({'vehicle': vehicle_id, 'boot': boot_id, 'crash': crash_id, 'by': name})}"


def route(settings: contract.Settings, known: roles.Roles | None) -> Route:
    """The route; a link on another site's page cannot put a reader's name into the custody log."""
    return Route(PATH, partial(_bundle, settings=settings, known=known))


async def _bundle(request: Request, settings: contract.Settings, known: roles.Roles | None) -> Response:
    if request.method != "GET" or request.headers.get("sec-fetch-site", "none") not in (
        "none",
        "same-origin",
    ):
        return PlainTextResponse(ELSEWHERE, 403)
    reader = roles.LOCAL if known is None else known.reader(identity(request))
    if reader is None or not reader.may("evidence"):
        return PlainTextResponse("this takes an admin who has signed in\n", 403)
    asked = request.query_params
    try:
        key = (asked["vehicle"], int(asked["boot"]), asked["crash"])
        actor = one_line("name", asked.get("by", "") if reader.local else reader.name)
    except (KeyError, ValueError, ConfigError) as error:
        return PlainTextResponse(f"bad address: {error}\n", 400)
    try:
        name, body = await run_in_threadpool(_made, contract.endpoints(settings), key, actor)
    except ServiceError as error:
        return PlainTextResponse(f"{error}\n", 503)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
        "Cache-Control": "no-store",
    }
    return Response(body, media_type="application/zip", headers=headers)


def _made(places: contract.Endpoints, key: Key, actor: str) -> tuple[str, bytes]:
    """The bundle's file name, and the bundle as `odograph crash export` makes it. Raises ServiceError."""
    if not places.db_dispatch_url:
        raise ServiceError("this stack was started before it had a role for this; run: odograph up")
    evidence = tables.evidence(places.db_dashboard_url, key)
    body = bundle.made(evidence)
    tables.note_export(places.db_dispatch_url, key, actor, hashlib.sha256(body).hexdigest())
    return bundle.name_of(evidence.record), body
