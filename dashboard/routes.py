"""What is served beside the pages: health, rows of maps, lists and charts, reports, bundles.

But for /livez the server runs them in threads of its own: they ask the database, or make large answers.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson
import pandas as pd
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dashboard import auth, basemap, query_cache
from dashboard.auth import LOCAL, Roles, identity
from dashboard.query_cache import RARE_S, SHARED, SLOW_S, Build, acting, ask_for_all, run_now, scoped
from dashboard.report import report
from dashboard.screens.crashes.queries import Key, crash
from dashboard.screens.fleet import queries as fleet_queries
from dashboard.screens.fleet.charts import CLUSTERS_PATH, tile
from dashboard.shared import downloads, live, maps, queries
from dashboard.shared.theme import STATES
from infra.clients.health import readiness
from infra.clients.log import refused
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.legal_basis import legal_basis
from infra.settings import settings as contract
from stream_jobs.crashes import tables
from stream_jobs.crashes.bundle import one_line

SQUARE: Final = "/{z:int}/{x:int}/{y:int}"
DEEPEST: Final = 24
Rows = Callable[[], pd.DataFrame]
BUNDLE_PATH: Final = "/crash/bundle"
Known = Callable[[], Roles | None]
"""Who may do what, now; None: nobody signs in."""


def routes(known: Known, settings: contract.Settings) -> list[Route]:
    """All routes; where people sign in, maps and data only for those who have."""
    taken = (*taken_routes(settings.tz), bundle_route(settings))
    ours = (*layer_routes(settings.dashboard.refresh_s), *ground_routes(), *taken)
    return [*health_routes(), *(answering(route, known) for route in ours)]


def answering(route: Route, known: Known) -> Route:
    """The route (no coroutine) for those who have a role, where people sign in; errors as answers."""

    def answer(request: Request) -> Response:
        try:
            roles = known()
        except (ConfigError, OSError):
            return PlainTextResponse(f"{auth.UNREADABLE}\n", 503)
        reader = LOCAL if roles is None else roles.reader(identity(request))
        if reader is None:
            refused(f"{route.path}: no role")
            return PlainTextResponse("sign in first\n", 403)
        request.state.reader = reader
        try:
            with acting(reader.scope):
                found: Response = route.endpoint(request)
            return found
        except (ConfigError, ServiceError) as error:
            status = 400 if isinstance(error, ConfigError) else 503
            return PlainTextResponse(f"{error}\n", 404 if isinstance(error, report.EmptyDayError) else status)

    return Route(route.path, answer)


def health_routes() -> list[Route]:
    """Liveness of the server's loop, readiness of the views (503 with the reason), metrics."""
    measured = query_cache.measures()

    def reason() -> str | None:
        with acting(None):
            run_now(queries.freshness)
        return None

    async def livez(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(_: Request) -> Response:
        with measured.probe_s.time():
            status, reasons = readiness({"database": reason})
        measured.up.set(status == 200)
        return JSONResponse(reasons, status)

    def metrics(_: Request) -> Response:
        return Response(generate_latest(measured.registry), media_type=CONTENT_TYPE_LATEST)

    return [Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics)]


def ground_routes() -> list[Route]:
    """What maps stand on and browsers keep: coast, MapLibre, a local basemap's tiles, roads of a version."""
    kept = {"Cache-Control": f"max-age={86_400}"}

    def roads(_: Request) -> Response:
        body = orjson.dumps(maps.road_rows(ask_for_all(queries.road_edges, RARE_S)))
        return Response(body, media_type="application/json", headers=kept)

    def stored(request: Request) -> Response:
        path, headers = request.url.path, kept | {"Content-Encoding": "gzip"}
        return Response(basemap.stored(path), media_type=basemap.STORED[path], headers=headers)

    def tile(request: Request) -> Response:
        tiles, at = basemap.current().tiles, _square(request)
        if tiles is None or at is None:
            return PlainTextResponse("no such tile\n", 404)
        found = tiles.get(*at)
        return Response(status_code=204) if found is None else Response(found, headers=tiles.headers)

    drawn = (Route(path, stored) for path in basemap.STORED)
    return [Route(maps.ROADS_PATH, roads), *drawn, Route(basemap.TILES_PATH + SQUARE, tile)]


def _square(request: Request) -> tuple[int, int, int] | None:
    z, x, y = (int(request.path_params[name]) for name in "zxy")
    return None if z > DEEPEST or max(x, y) >= 2**z else (z, x, y)


def layer_routes(refresh_s: float) -> list[Route]:
    """Vehicles and bubbles of the fleet; cells and edges of the traffic: what pages have put into layers."""

    fleet_now = partial(ask_for_all, fleet_queries.fleet_latest, refresh_s * SHARED)

    def traffic_now(by_cell: bool) -> pd.DataFrame:
        of_now = fleet_queries.road_cells if by_cell else fleet_queries.road_edge_traffic
        known: maps.Limits = {}
        if by_cell:
            known = live.limits(ask_for_all(queries.road_networks, RARE_S)["version"].iloc[0])
        return maps.judged(ask_for_all(of_now, SLOW_S), known)

    def of_states(request: Request, build: Callable[[pd.DataFrame], Any], place: str) -> Response:
        asked = set(request.query_params.get("states", "").split(",")) & set(STATES)
        states = sorted(asked)  # in one order: they are part of what a body is kept under

        def chosen(fleet: pd.DataFrame) -> Any:
            return build(fleet[fleet["state"].isin(states)] if states else fleet)

        return _layer(request, "fleet", f"{place} {states}", chosen, fleet_now)

    def bubbles(request: Request) -> Response:
        if (at := _square(request)) is None:
            return PlainTextResponse("no such tile\n", 404)
        return of_states(request, lambda fleet: tile(fleet, *at), "/".join(map(str, at)))

    def traffic(request: Request) -> Response:
        by_cell = request.url.path == maps.CELLS_PATH
        kind, rows = ("cells", maps.cell_rows) if by_cell else ("edges", maps.edge_rows)
        return _layer(request, "traffic", kind, rows, partial(traffic_now, by_cell))

    def vehicles(request: Request) -> Response:
        return of_states(request, maps.vehicle_rows, "vehicles")

    of_traffic = (Route(path, traffic) for path in (maps.CELLS_PATH, maps.EDGES_PATH))
    return [Route(maps.VEHICLES_PATH, vehicles), Route(f"{CLUSTERS_PATH}{SQUARE}.json", bubbles), *of_traffic]


def _layer(request: Request, kind: str, variant: str, build: Build, now: Rows) -> Response:
    cache, layer = query_cache.cache(), (scoped(kind), request.query_params.get("at", ""))
    rows = cache.layer_rows(layer)
    if rows is None and cache.has_others(layer):
        auth.not_theirs(request.state.reader, f"layer {kind}")
    rows = rows or cache.layer(layer[0], now())
    headers = {"Content-Encoding": "gzip", "Cache-Control": "no-store"}
    return Response(rows.body(variant, build), media_type="application/json", headers=headers)


def taken_routes(tz: str) -> list[Route]:
    """What readers take away, and the audit log notes: rows behind a session's list or chart; a report."""

    def data(request: Request) -> Response:
        asked = request.query_params
        shown, key = downloads.sessions().get(asked.get("of", "")), asked.get("key", "")
        rows, form = None if shown is None else shown.rows.get(key), downloads.FORMS.get(asked.get("as", ""))
        if foreign := shown is not None and shown.scope != query_cache.scope():
            auth.not_theirs(request.state.reader, "rows of a list or chart")
        if shown is None or rows is None or form is None or foreign:
            return PlainTextResponse("these rows are no longer shown: open the page anew\n", 410)
        found = rows() if callable(rows) else rows
        stem = re.sub(r"\W+", "_", f"odograph_{key}_{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        name = f"{stem}.{asked['as'].lower()}"
        body = form[1](found)
        auth.note("downloaded", shown.vehicle_of(found), name, request.state.reader.name)
        return _file(body, name, form[0])

    def of_day(request: Request) -> Response:
        day, vehicle = request.query_params.get("day", ""), request.query_params.get("vehicle") or None
        if vehicle and run_now(queries.vehicle, vehicle).empty:
            auth.not_theirs(request.state.reader, "a vehicle's report")
        html = report.made(query_cache.database(), day, vehicle, tz)
        auth.note("downloaded", vehicle, f"report of {day}", request.state.reader.name)
        return HTMLResponse(html, headers={"Cache-Control": "no-store"})

    return [Route(downloads.PATH, data), Route(live.REPORT_PATH, of_day)]


def _file(body: bytes, name: str, media_type: str) -> Response:
    attachment = f"attachment; filename*=UTF-8''{quote(name)}"
    headers = {"Content-Disposition": attachment, "Cache-Control": "no-store"}
    return Response(body, media_type=media_type, headers=headers)


def bundle_address(key: Key, name: str, basis: str) -> str:
    """Where a reader of this name has a record's bundle from; where people sign in, who did counts.

    ``basis``: as of ``legal_basis``.
    """
    asked = dict(zip(("vehicle", "boot", "crash"), key, strict=True))
    return f"{BUNDLE_PATH}?{urlencode(asked | {'by': name, 'basis': basis})}"


def bundle_route(settings: contract.Settings) -> Route:
    """The bundle: made when it is asked for, and noted in the custody log before it leaves.

    A download button of Streamlit keeps what its function made only until two parts of any reader's page have
    run. A link on another site's page cannot put a reader's name into the log: it is refused.
    """

    def answer(request: Request) -> Response:
        site, reader = request.headers.get("sec-fetch-site", "none"), request.state.reader
        if request.method != "GET" or site not in ("none", "same-origin"):
            return PlainTextResponse("this address is for the dashboard's own pages\n", 403)
        if not reader.may("evidence"):
            refused(f"{BUNDLE_PATH}: no admin", reader.name)
            return PlainTextResponse("this takes an admin who has signed in\n", 403)
        asked = request.query_params
        try:
            key = (asked["vehicle"], int(asked["boot"]), asked["crash"])
            actor = one_line("name", asked.get("by", "") if reader.local else reader.name)
            basis = legal_basis(asked.get("basis", ""))
        except (KeyError, ValueError, ConfigError) as error:
            raise ConfigError(f"bad address: {error}") from error
        if run_now(crash, *key).empty:
            auth.not_theirs(reader, BUNDLE_PATH)
            return PlainTextResponse("no such crash record\n", 404)
        try:
            places = contract.endpoints(settings, ("db_dashboard_url", "db_dispatch_url"))
            urls = (places.db_dashboard_url, places.db_dispatch_url)
            name, body, _ = tables.export(settings, urls, key, actor, basis, reader.name)
        except ConfigError as error:  # not the asker's fault
            raise ServiceError(str(error)) from error
        return _file(body, name, "application/zip")

    return Route(BUNDLE_PATH, answer)
