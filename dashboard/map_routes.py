"""Addresses of map rows: what pages have put into sheets, as browsers fetch it. No SQL."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pandas as pd
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dashboard import clusters, fleet_layers, maps
from dashboard.palette import STATES
from dashboard.sheets import Build, Sheets

TILE: Final = fleet_layers.CLUSTERS_PATH + "/{z:int}/{x:int}/{y:int}.json"
DEEPEST: Final = 24
GONE: Final = "no such sheet: open the page anew\n"

Find = Callable[[], Sheets]


def routes(fleet: Find, traffic: Find) -> list[Route]:
    """Vehicles and bubbles of the fleet's sheets; cells and edges of those of the traffic."""
    return [
        Route(fleet_layers.VEHICLES_PATH, partial(_vehicles, find=fleet)),
        Route(TILE, partial(_bubbles, find=fleet)),
        Route(fleet_layers.CELLS_PATH, partial(_whole, find=traffic, build=maps.cell_rows)),
        Route(fleet_layers.EDGES_PATH, partial(_whole, find=traffic, build=fleet_layers.edge_rows)),
    ]


async def _vehicles(request: Request, find: Find) -> Response:
    states = _states(request)
    return await _answer(request, find, f"vehicles {states}", lambda f: maps.vehicle_rows(of(f, states)))


async def _bubbles(request: Request, find: Find) -> Response:
    """One tile of bubbles; a tile that cannot be is empty."""
    z, x, y = (int(request.path_params[name]) for name in "zxy")
    states = _states(request)
    if z > DEEPEST or max(x, y) >= 2**z:
        return PlainTextResponse("no such tile\n", 404)
    return await _answer(
        request, find, f"{z}/{x}/{y} {states}", lambda f: clusters.tile(of(f, states), z, x, y)
    )


async def _whole(request: Request, find: Find, build: Build) -> Response:
    return await _answer(request, find, build.__name__, build)


async def _answer(request: Request, find: Find, variant: str, build: Build) -> Response:
    sheet = find().get(request.query_params.get("at", ""))
    if sheet is None:
        return PlainTextResponse(GONE, 410)
    body = await run_in_threadpool(sheet.body, variant, build)
    headers = {"Content-Encoding": "gzip", "Cache-Control": "no-store"}
    return Response(body, media_type="application/json", headers=headers)


def _states(request: Request) -> tuple[str, ...]:
    """The states asked for, in one order: they are part of what a body is kept under."""
    asked = request.query_params.get("states", "")
    return tuple(sorted(set(asked.split(",")) & set(STATES))) if asked else ()


def of(fleet: pd.DataFrame, states: tuple[str, ...]) -> pd.DataFrame:
    """Only the vehicles of these states; all where none is named."""
    return fleet[fleet["state"].isin(states)] if states else fleet
