"""Many vehicles on one place become one bubble with their number: by map tile, as GeoJSON. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboard.palette import SEVERITIES, STATES, rgba

CELLS: Final = 3
"""Bubbles along a tile's side, at most: a tile is 512 to 1024 px wide."""
LEAST: Final = 10
"""Fewer vehicles than these in a cell are told apart: no bubble."""
RADIUS_PX: Final = (11.0, 30.0)
FULL: Final = 1_500
"""Vehicles from which a bubble does not grow any more."""
POLE_DEG: Final = 85.0
_RINGS: Final = tuple(SEVERITIES)

Floats = npt.NDArray[np.float64]


def tile(fleet: pd.DataFrame, zoom: int, column: int, row: int) -> dict[str, Any]:
    """The bubbles of one tile of the Web Mercator grid, GeoJSON; ``fleet`` as in fleet_latest."""
    placed = fleet.dropna(subset=["lat_deg", "lon_deg"])
    east, south = world(placed["lon_deg"].to_numpy(float), placed["lat_deg"].to_numpy(float))
    scale = 2.0**zoom
    inside = (np.floor(east * scale) == column) & (np.floor(south * scale) == row)
    kept = placed[inside]
    cells = _cells(east[inside] * scale - column, south[inside] * scale - row)
    return {"type": "FeatureCollection", "features": list(_bubbles(kept, cells, zoom))}


def world(lon_deg: Floats, lat_deg: Floats) -> tuple[Floats, Floats]:
    """Place on the Web Mercator square: 0 to 1 from west to east and from north to south."""
    lat = np.radians(np.clip(lat_deg, -POLE_DEG, POLE_DEG))
    return (lon_deg + 180) / 360, (1 - np.arcsinh(np.tan(lat)) / math.pi) / 2


def _cells(east: Floats, south: Floats) -> npt.NDArray[np.int64]:
    across, down = (np.minimum(np.floor(v * CELLS), CELLS - 1).astype(np.int64) for v in (east, south))
    return across + CELLS * down


def _bubbles(fleet: pd.DataFrame, cells: npt.NDArray[np.int64], zoom: int) -> Iterator[dict[str, Any]]:
    for _, rows in fleet.groupby(cells, sort=True):
        if len(rows) >= LEAST:
            yield _bubble(rows, zoom)


def _bubble(rows: pd.DataFrame, zoom: int) -> dict[str, Any]:
    """A bubble at the middle of its vehicles: colour of the most common state, rim of the worst alert."""
    lon, lat = round(float(rows["lon_deg"].mean()), 5), round(float(rows["lat_deg"].mean()), 5)
    states = rows["state"].value_counts()
    alerted = int((rows["alerts"] > 0).sum())
    worst = next((s for s in _RINGS if (rows["severity"] == s).any()), None)
    told = ", ".join(f"{count:,} {state}" for state, count in states.items())
    tip = f"{len(rows):,} vehicles\n{told}" + (f"\n{alerted:,} with alerts, worst {worst}" if alerted else "")
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
