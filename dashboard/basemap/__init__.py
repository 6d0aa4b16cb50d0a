"""The ground of all maps, as one MapLibre style: the basemap of the settings, else coast lines and borders.

The server has all that it needs: the coast (Natural Earth), the tiles of a local file, and MapLibre for the
maps that are not deck's. Only a style at another address makes browsers ask elsewhere.
"""

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import streamlit as st

from dashboard.query_cache import settings
from dashboard.shared.text import Record
from dashboard.shared.theme import Mode
from infra.clients.basemap import Basemap, Tiles, find

COAST_PATH: Final = "/map/coast.json"
TILES_PATH: Final = "/map/ground"
STORED: Final = {COAST_PATH: "application/json", "/map/maplibre-gl.js": "text/javascript"}
"""Files of this folder, compressed, by the path under which the server has them."""
COLOURS: Final[dict[Mode, dict[str, str]]] = {
    "light": {"ground": "#eef1f4", "sea": "#c9dcea", "coast": "#a3b8c8", "border": "#b0a6c0",
              "green": "#e1ebdf", "building": "#e1e4e9", "road": "#ffffff"},
    "dark": {"ground": "#12171e", "sea": "#0d263d", "coast": "#4a6580", "border": "#6d6480",
             "green": "#13211c", "building": "#1a212a", "road": "#2a323d"},
}  # fmt: skip
FIND_AGAIN_S: Final = 120.0
COAST_ZOOM: Final = 6  # up to this zoom coast lines lie under the tiles, which may hold one town only
KINDS: Final = (
    ("earth", "ground"), ("land", "green"), ("park", "green"), ("ocean", "sea"), ("water", "sea"),
    ("building", "building"), ("road", "road"), ("transport", "road"), ("bound", "border"),
    ("admin", "border"),
)  # fmt: skip
"""Begin of a vector layer's name (of Protomaps, OpenMapTiles) -> its colour, from the ground up."""
WIDTHS: Final = {"road": [5, 0.4, 12, 1.2, 16, 5], "sea": [8, 0.5, 16, 3], "border": [3, 0.6, 10, 1.5]}
"""Width of a colour's lines: zoom, px, and so on."""


@st.cache_resource(ttl=FIND_AGAIN_S, show_spinner=False)
def current() -> Basemap:
    """The basemap of the settings; what could not be used is tried again after a while."""
    return find(settings().dashboard.basemap)


def stored(path: str) -> bytes:
    """A file of ``STORED`` as it is served, gzip."""
    return Path(__file__).with_name(f"{path.rpartition('/')[2]}.gz").read_bytes()


def style(base: Basemap, mode: Mode, origin: str) -> str | Record:
    """The style, or its address; ``origin`` is the dashboard's own: workers of a map know no page."""
    if base.style_url:
        return base.style_url
    colours = COLOURS[mode]
    sources: dict[str, Any] = {"coast": {"type": "geojson", "data": f"{origin}{COAST_PATH}", "maxzoom": 8}}
    sea, land, border = (
        {"source": "coast", "filter": ["==", "kind", kind]} for kind in ("sea", "land", "border")
    )
    coast = {"line-color": colours["coast"], "line-width": 1}
    dashes = {"line-color": colours["border"], "line-width": 1.2, "line-dasharray": [3, 2]}
    layers: list[Record] = [
        {"id": "ground", "type": "background", "paint": {"background-color": colours["ground"]}},
        sea | {"id": "sea", "type": "fill", "paint": {"fill-color": colours["sea"]}},
        land | {"id": "land", "type": "fill", "paint": {"fill-color": colours["ground"]}},
        land | {"id": "coast", "type": "line", "paint": coast},
        border | {"id": "border", "type": "line", "paint": dashes},
    ]
    if base.tiles:
        ends = {"maxzoom": max(COAST_ZOOM, base.tiles.zooms[0])}
        layers = [layers[0], *(layer | ends for layer in layers[1:]), *_layers(base.tiles, colours)]
        kind = {"type": "raster", "tileSize": 256} if base.tiles.layers is None else {"type": "vector"}
        place = f"{origin}{TILES_PATH}/{{z}}/{{x}}/{{y}}?v={base.tiles.version}"
        zooms = dict(zip(("minzoom", "maxzoom"), base.tiles.zooms, strict=True))
        sources["tiles"] = kind | zooms | {"tiles": [place]}
    return {"version": 8, "sources": sources, "layers": layers}


def address(made: str | Record) -> str:
    """A style as the address that deck wants."""
    return made if isinstance(made, str) else f"data:application/json,{quote(json.dumps(made))}"


def _layers(tiles: Tiles, colours: dict[str, str]) -> list[Record]:
    """Areas and lines of the file's layers by the begins of their names; of an unknown one the lines only."""
    if tiles.layers is None:
        return [{"id": "tiles", "type": "raster", "source": "tiles"}]
    begins = tuple(begin for begin, _ in KINDS)
    found = [(name, colour) for begin, colour in KINDS for name in tiles.layers if name.startswith(begin)]
    found += [(name, "") for name in tiles.layers if not name.startswith(begins)]
    made: list[Record] = []
    for name, colour in found:
        of = {"source": "tiles", "source-layer": name}
        paint = colours[colour or "border"]
        if colour not in ("", "road", "border"):
            area = {"id": f"{name}-area", "type": "fill", "filter": ["==", "$type", "Polygon"]}
            made.append(area | of | {"paint": {"fill-color": paint}})
        width = ["interpolate", ["linear"], ["zoom"], *WIDTHS.get(colour, WIDTHS["border"])]
        line = {"id": f"{name}-line", "type": "line", "filter": ["==", "$type", "LineString"]}
        made.append(line | of | {"paint": {"line-color": paint, "line-width": width}})
    return made
