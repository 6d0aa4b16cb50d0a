"""The style that all maps stand on, and what the server has for it."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.requests import Request
from starlette.responses import Response

from dashboard import basemap, routes
from infra.clients.basemap import Basemap, find
from tests.support_tiles import write_tiles

ORIGIN = "http://127.0.0.1:8501"


@pytest.fixture
def town(tmp_path: Path) -> Basemap:
    box = (8.0, 48.0, 8.1, 48.1)
    write_tiles(tmp_path / "t.pmtiles", {"roads": box, "pois": box, "water": box, "landuse": box}, 9)
    return find(str(tmp_path / "t.pmtiles"))


def of(base: Basemap) -> dict[str, Any]:
    """The style as deck has it."""
    address = basemap.address(basemap.style(base, "light", ORIGIN))
    made: dict[str, Any] = json.loads(unquote(address.removeprefix("data:application/json,")))
    return made


def answer(path: str, **place: int) -> Response:
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "path_params": place}
    [route] = [
        route for route in routes.ground_routes() if route.path in (path, basemap.TILES_PATH + routes.SQUARE)
    ][:1]
    found: Response = route.endpoint(Request(scope))
    return found


def test_without_a_basemap_maps_stand_on_sea_land_coast_and_borders() -> None:
    """All of one source: while it loads nothing is sea."""
    style = of(Basemap())
    assert [layer["id"] for layer in style["layers"]] == ["ground", "sea", "land", "coast", "border"]
    assert style["sources"]["coast"]["data"] == "http://127.0.0.1:8501/map/coast.json"


def test_no_coast_runs_around_the_world() -> None:
    """Where a ring crosses 180 degrees, an edge to the other side would paint seas as land."""
    stored = json.loads(gzip.decompress(basemap.stored(basemap.COAST_PATH)))
    land = next(one["geometry"] for one in stored["features"] if one["properties"]["kind"] == "land")
    edges = [pair for polygon in land["coordinates"] for ring in polygon for pair in pairwise(ring)]
    assert len(edges) > 10_000
    long = [(a, b) for a, b in edges if abs(a[0] - b[0]) > 180 and a[1] > -80]  # Antarctica has a pole
    assert long == []


def test_a_style_at_an_address_is_left_to_the_browser() -> None:
    assert basemap.style(Basemap(style_url="https://example.org/s.json"), "dark", ORIGIN) == (
        "https://example.org/s.json"
    )


def test_layers_of_a_file_lie_from_the_ground_up_and_unknown_ones_are_lines(town: Basemap) -> None:
    style = of(town)
    assert [layer["id"] for layer in style["layers"]] == [
        *("ground", "sea", "land", "coast", "border", "landuse-area", "landuse-line"),
        *("water-area", "water-line", "roads-line", "pois-line"),
    ]
    assert {layer["maxzoom"] for layer in style["layers"][1:5]} == {6}
    assert style["sources"]["tiles"]["tiles"][0].startswith(f"{ORIGIN}/map/ground/{{z}}/{{x}}/{{y}}?v=")


def test_the_coast_is_small_and_holds_land_and_borders() -> None:
    body = bytes(answer(basemap.COAST_PATH).body)
    assert len(body) < 400_000
    found = {
        each["properties"]["kind"]: each["geometry"] for each in json.loads(gzip.decompress(body))["features"]
    }
    assert {kind: geometry["type"] for kind, geometry in found.items()} == {
        "sea": "Polygon",
        "land": "MultiPolygon",
        "border": "MultiLineString",
    }
    assert len(found["land"]["coordinates"]) > 1500


def test_tiles_are_served_as_stored_and_a_place_without_any_is_empty(
    town: Basemap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(basemap, "current", lambda: town)
    there, nowhere, beyond = (answer("/map/ground", z=9, x=x, y=177) for x in (267, 1, 512))
    assert (there.status_code, there.headers["content-encoding"]) == (200, "gzip")
    assert b"water" in gzip.decompress(bytes(there.body))
    assert (nowhere.status_code, beyond.status_code) == (204, 404)
