"""The web server: Streamlit's pages, the road layer for the map, and the health page every process has."""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import pkgutil
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import streamlit as st
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dashboard import bundles, door, fleet_queries, live, map_routes, maps, roles, shown, theme
from dashboard.host_check import HostCheck, served_names
from dashboard.measures import Measures
from dashboard.queries import Database
from infra.clients.health import readiness
from infra.contract.errors import ConfigError, ServiceError
from infra.settings import settings as contract
from infra.settings.sections import Dashboard

SCRIPT: Final = Path(__file__).with_name("app.py")
A_DAY_S: Final = 86_400


def serve(port: int) -> None:
    """Serve until stopped. Raises ConfigError where anybody could reach it and nobody has to sign in."""
    pd.set_option("mode.copy_on_write", True)  # readers share answers: what one changes is its own
    settings = contract.load()
    chosen = settings.dashboard
    known = None if chosen.oidc is None else roles.load_roles(chosen.oidc)
    if known is None and not chosen.address.is_loopback:
        raise ConfigError(
            f"ODOGRAPH_DASHBOARD_ADDRESS {chosen.address}: others reach it and nobody has to sign in; "
            f"set {roles.OPTION}, or leave the address at 127.0.0.1"
        )
    database = Database(lambda: contract.endpoints(settings).db_dashboard_url)
    _settle()
    check = Middleware(HostCheck, names=served_names(chosen, known))
    st.App(SCRIPT, routes=routes(database, known, settings), middleware=[check]).run(
        config=options(port, chosen)
    )


def _settle() -> None:
    """Load what pages are drawn with, and let garbage collection pass over all that stays for ever.

    The first reader does not wait for it then, and a collection takes a third of its time. Tables of some
    hundred rows are made by one thread: starting more for each of them costs more than they save.
    """
    pa.set_cpu_count(1)
    for module in pkgutil.iter_modules([str(SCRIPT.parent)], "dashboard."):
        if not module.ispkg and module.name != f"dashboard.{SCRIPT.stem}":
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else DuckDB lists on standard error what is still there


def options(port: int, chosen: Dashboard) -> dict[str, Any]:
    """Streamlit's options: no browser opened, nothing sent to anyone, no file of secrets but ours."""
    return {
        "server.address": str(chosen.address),
        "server.port": port,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.showEmailPrompt": False,
        "browser.gatherUsageStats": False,
        "secrets.files": [] if chosen.oidc is None else [str(chosen.oidc.resolve())],
        "runner.postScriptGC": False,  # a full collection after each part of each reader: half of all time
        "runner.magicEnabled": False,  # it draws the words below a constant on the page
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "type",
        "client.showErrorLinks": False,
    } | theme.options()


def routes(database: Database, known: roles.Roles | None, settings: contract.Settings) -> list[Route]:
    """What is served beside the pages; where people sign in, maps only to those who have."""
    measures = live.measures()
    roads = Route(maps.ROADS_PATH, partial(_roads, database=database))
    mapped = [roads, *map_routes.routes(shown.fleet, shown.traffic)]
    return [
        Route("/livez", _livez),
        Route("/readyz", partial(_readyz, database=database, measures=measures)),
        Route("/metrics", partial(_metrics, measures=measures)),
        *(door.guarded(route, known) for route in mapped),
        bundles.route(settings, known),
    ]


async def _livez(request: Request) -> Response:  # noqa: ARG001  the router's signature
    """200 while the server's loop runs."""
    return PlainTextResponse("ok\n")


async def _readyz(request: Request, database: Database, measures: Measures) -> Response:  # noqa: ARG001
    """200 when the views answer, else 503 with the reason."""
    with measures.probe_s.time():
        status, reasons = await run_in_threadpool(readiness, {"database": partial(_database, database)})
    measures.up.set(status == 200)
    return JSONResponse(reasons, status)


async def _metrics(request: Request, measures: Measures) -> Response:  # noqa: ARG001
    return Response(generate_latest(measures.registry), media_type=CONTENT_TYPE_LATEST)


async def _roads(request: Request, database: Database) -> Response:  # noqa: ARG001
    """The road layer. Its address carries a version, so the browser may keep it."""
    try:
        rows = await run_in_threadpool(_road_rows, database)
    except ServiceError as error:
        return PlainTextResponse(str(error), 503)
    body = json.dumps(rows, separators=(",", ":"))
    return Response(body, media_type="application/json", headers={"Cache-Control": f"max-age={A_DAY_S}"})


def _road_rows(database: Database) -> list[dict[str, Any]]:
    with database.connection() as connection:
        return maps.road_rows(fleet_queries.road_edges(connection))


def _database(database: Database) -> str | None:
    with database.connection() as connection:
        fleet_queries.freshness(connection)
    return None
