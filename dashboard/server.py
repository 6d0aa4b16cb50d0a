"""The web server: Streamlit's pages, the road layer for the map, and the health page every process has."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd
import streamlit as st
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dashboard import fleet_queries, live, map_routes, maps, shown, theme
from dashboard.measures import Measures
from dashboard.queries import Database
from infra.contract import settings as contract
from infra.contract.errors import ServiceError
from infra.health import readiness

HOST: Final = "127.0.0.1"
SCRIPT: Final = Path(__file__).with_name("app.py")
A_DAY_S: Final = 86_400


def serve(port: int) -> None:
    """Serve until stopped. ``port`` on the loopback interface."""
    pd.set_option("mode.copy_on_write", True)  # readers share answers: what one changes is its own
    settings = contract.load()
    database = Database(lambda: contract.endpoints(settings).db_dashboard_url)
    st.App(SCRIPT, routes=routes(database)).run(config=options(port))


def options(port: int) -> dict[str, Any]:
    """Streamlit's options: loopback only, no browser opened, nothing sent to anyone."""
    return {
        "server.address": HOST,
        "server.port": port,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.showEmailPrompt": False,
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "type",
        "client.showErrorLinks": False,
    } | theme.options()


def routes(database: Database) -> list[Route]:
    """What is served beside the pages."""
    measures = live.measures()
    return [
        Route("/livez", _livez),
        Route("/readyz", partial(_readyz, database=database, measures=measures)),
        Route("/metrics", partial(_metrics, measures=measures)),
        Route(maps.ROADS_PATH, partial(_roads, database=database)),
        *map_routes.routes(shown.fleet, shown.traffic),
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
