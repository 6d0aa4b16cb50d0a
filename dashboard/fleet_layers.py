"""Layers of the map of a large fleet: bubbles, traffic by road, the vehicle chosen. Frame or address in."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import pandas as pd
import pydeck as pdk

from dashboard.maps import ALPHA, Record, literal, placed, rows_of
from dashboard.palette import CONGESTION, rgba

VEHICLES_PATH: Final = "/map/vehicles.json"
CLUSTERS_PATH: Final = "/map/clusters"
CELLS_PATH: Final = "/map/cells.json"
EDGES_PATH: Final = "/map/edges.json"
"""Where the server of the pages serves the rows of these layers; ``at`` is the number of a sheet."""
MANY: Final = 1_000
"""Vehicles from which bubbles are drawn, and small signs from afar."""
APART_ZOOM: Final = 12
"""From the next zoom on every vehicle is told apart."""
CLUSTER_LAYER: Final = "clusters"
_WORST_LAST: Final = ("unknown", "free", "slow", "congested", "severe")


def address(path: str, number: str, states: list[str] | None = None) -> str:
    """Where the rows of a sheet are, only vehicles of these states."""
    return f"{path}?{urlencode({'at': number} | ({'states': ','.join(states)} if states else {}))}"


def clusters(number: str, states: list[str] | None, seen: int) -> pdk.Layer:
    """Bubbles for places with many vehicles, by tiles that the browser asks for as the reader moves.

    ``seen`` clicks have been answered: with each the layer gets another name, which clears the map's choice;
    two bubbles of different tiles may have one place in their lists and would be taken for one.
    """
    return pdk.Layer(
        "TileLayer",
        address(f"{CLUSTERS_PATH}/{{z}}/{{x}}/{{y}}.json", number, states),
        id=f"{CLUSTER_LAYER}-{seen}",
        min_zoom=0,
        max_zoom=APART_ZOOM,
        visible_max_zoom=APART_ZOOM + 0.5,
        tile_size=512,
        point_type=literal("circle+text"),
        get_point_radius="properties.r",
        point_radius_units=literal("pixels"),
        get_fill_color="properties.c",
        stroked=True,
        get_line_color="properties.k",
        get_line_width=2,
        line_width_units=literal("pixels"),
        get_text="properties.n",
        get_text_size=12,
        get_text_color=[255, 255, 255, 255],
        text_font_family=literal("sans-serif"),
        text_font_weight=600,
        pickable=True,
    )


def ring(fleet: pd.DataFrame, vehicle_id: str) -> list[pdk.Layer]:
    """A ring around the vehicle whose card is open; none where it has no position."""
    one = placed(fleet[fleet["vehicle_id"] == vehicle_id])
    rows = [{"position": [r["lon_deg"], r["lat_deg"]]} for r in rows_of(one)]
    if not rows:
        return []
    return [
        pdk.Layer(
            "ScatterplotLayer",
            rows,
            id="chosen",
            get_position="position",
            get_radius=24,
            radius_units=literal("pixels"),
            filled=False,
            stroked=True,
            get_line_color=[214, 36, 110, 255],
            get_line_width=3,
            line_width_units=literal("pixels"),
            pickable=False,
        )
    ]


def edges(data: str | list[Record]) -> pdk.Layer:
    """Traffic by directed road edge; ``data`` is the address of ``edge_rows``, or the rows."""
    return pdk.Layer(
        "PathLayer",
        data,
        id="edges",
        get_path="path",
        get_color="colour",
        get_width=5,
        width_units=literal("pixels"),
        cap_rounded=True,
        joint_rounded=True,
        pickable=True,
        auto_highlight=True,
    )


def edge_rows(found: pd.DataFrame) -> list[Record]:
    """Edges with a known band, the worst last: where two directions share a line it is the worse one's."""
    known = found.sort_values("congestion", key=lambda c: c.map(_WORST_LAST.index), kind="stable")
    return [_edge(row) for row in rows_of(known)]


def _edge(row: Record) -> Record:
    ratio = "not judged" if row["speed_ratio"] is None else f"{row['speed_ratio']:.0%} of free flow"
    told = {
        "live": f"{row['vehicles']} vehicles in five minutes",
        "profile": "as usual at this hour of the week",
        "none": f"{row['vehicles']} vehicles: too few to tell",
    }[row["source"]]
    return {
        "path": [[round(x, 5), round(y, 5)] for x, y in row["path"]],
        "colour": list(rgba(CONGESTION[row["congestion"]], min(255, ALPHA[row["source"]] + 90))),
        "tip": f"{row['congestion']}: {row['speed_kmh']:.0f} km/h, {ratio}\n{told}",
    }
