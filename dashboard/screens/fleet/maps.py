"""Layers of the fleet's map: bubbles for many vehicles on one place, and the vehicle chosen. Pure."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pydeck as pdk

from dashboard.shared.maps import address, dot, literal, placed
from dashboard.shared.text import rows_of
from dashboard.shared.theme import SEVERITIES, STATES, rgba

CLUSTERS_PATH: Final = "/map/clusters"
"""Where the server of the pages serves the bubbles by map tile; ``at`` is the number of a result."""
MANY: Final = 1_000  # vehicles from which bubbles are drawn, and small signs from afar
APART_ZOOM: Final = 12  # from the next zoom on every vehicle is drawn by itself
CELLS: Final = 3  # bubbles along a tile's side, at most: a tile is 512 to 1024 px wide
CLUSTER_LEAST: Final = 10  # fewer vehicles than these in a cell are drawn one by one: no bubble
RADIUS_PX: Final = (11.0, 30.0)
FULL: Final = 1_500  # vehicles from which a bubble does not grow any more
POLE_DEG: Final = 85.0

Floats = npt.NDArray[np.float64]


def clusters(number: str, states: Sequence[str], seen: int) -> pdk.Layer:
    """Bubbles for places with many vehicles, by tiles that the browser asks for as the reader moves.

    ``seen`` clicks have been answered: with each the layer gets another name, which clears the map's choice;
    two bubbles of different tiles may have one place in their lists and would be taken for one.
    """
    tiles = {"min_zoom": 0, "max_zoom": APART_ZOOM, "visible_max_zoom": APART_ZOOM + 0.5, "tile_size": 512}
    disc: Any = {"get_point_radius": "properties.r", "point_radius_units": literal("pixels")}
    disc |= {"get_fill_color": "properties.c", "stroked": True, "get_line_color": "properties.k"}
    disc |= {"get_line_width": 2, "line_width_units": literal("pixels")}
    words: Any = {"get_text": "properties.n", "get_text_size": 12, "get_text_color": [255, 255, 255, 255]}
    words |= {"text_font_family": literal("sans-serif"), "text_font_weight": 600}
    return pdk.Layer(
        "TileLayer",
        address(f"{CLUSTERS_PATH}/{{z}}/{{x}}/{{y}}.json", number, states),
        id=f"clusters-{seen}",
        point_type=literal("circle+text"),
        pickable=True,
        **tiles,
        **disc,
        **words,
    )


def ring(fleet: pd.DataFrame, vehicle_id: str) -> list[pdk.Layer]:
    """A ring around the vehicle whose card is open; none where it has no position."""
    one = placed(fleet[fleet["vehicle_id"] == vehicle_id])
    rows = [{"lon": r["lon_deg"], "lat": r["lat_deg"]} for r in rows_of(one)]
    colour = [214, 36, 110, 255]
    return [dot(rows, "chosen", get_radius=24, filled=False, get_line_color=colour)] if rows else []


def tile(fleet: pd.DataFrame, zoom: int, column: int, row: int) -> dict[str, Any]:
    """The bubbles of one tile of the Web Mercator grid, GeoJSON; ``fleet`` as in fleet_latest."""
    located = placed(fleet)
    east, south = world(located["lon_deg"].to_numpy(float), located["lat_deg"].to_numpy(float))
    scale = 2.0**zoom
    inside = (np.floor(east * scale) == column) & (np.floor(south * scale) == row)
    within = (east[inside] * scale - column, south[inside] * scale - row)
    across, down = (np.minimum(np.floor(v * CELLS), CELLS - 1).astype(np.int64) for v in within)
    groups = (rows for _, rows in located[inside].groupby(across + CELLS * down, sort=True))
    bubbles = [_bubble(rows, zoom) for rows in groups if len(rows) >= CLUSTER_LEAST]
    return {"type": "FeatureCollection", "features": bubbles}


def world(lon_deg: Floats, lat_deg: Floats) -> tuple[Floats, Floats]:
    """Place on the Web Mercator square: 0 to 1 from west to east and from north to south."""
    lat = np.radians(np.clip(lat_deg, -POLE_DEG, POLE_DEG))
    return (lon_deg + 180) / 360, (1 - np.arcsinh(np.tan(lat)) / math.pi) / 2


def _bubble(rows: pd.DataFrame, zoom: int) -> dict[str, Any]:
    """A bubble at the middle of its vehicles: colour of the most common state, rim of the worst alert."""
    lon, lat = round(float(rows["lon_deg"].mean()), 5), round(float(rows["lat_deg"].mean()), 5)
    states = rows["state"].value_counts()
    alerted = int((rows["alerts"] > 0).sum())
    worst = next((s for s in SEVERITIES if (rows["severity"] == s).any()), None)
    listed = ", ".join(f"{count:,} {state}" for state, count in states.items())
    alerts = f"\n{alerted:,} with alerts, worst {worst}" if alerted else ""
    tip = f"{len(rows):,} vehicles\n{listed}{alerts}"
    return {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [lon, lat]},
        "properties": {
            "n": short(len(rows)),
            "r": round(radius_px(len(rows)), 1),
            "c": list(rgba(STATES[str(states.index[0])], 235)),
            "k": list(rgba(SEVERITIES[worst])) if worst else [255, 255, 255, 230],
            "tip": f"{tip}\nclick to look closer",
            "cluster": [lat, lon, zoom],
        },
    }


def radius_px(vehicles: int) -> float:
    """The area of a bubble grows with its vehicles, up to FULL."""
    low, high = RADIUS_PX
    return low + (high - low) * math.sqrt(min(vehicles, FULL) / FULL)


def short(count: int) -> str:
    """``87``, ``1.2k``, ``14k``."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 9950 else f"{round(count / 1000)}k"
