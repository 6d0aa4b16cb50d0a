"""Layers of flows between hexagons: frame in, layers out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import h3
import pandas as pd
import pydeck as pdk

from dashboard.maps import Record, rows_of
from dashboard.palette import SERIES, rgba

WIDEST_PX: Final = 14.0
NARROWEST_PX: Final = 1.5
NAMED_MOST: Final = 24
"""Hexagons with a name of their own, the busiest first; a matrix of more is not read."""


def names(flows: pd.DataFrame) -> dict[str, str]:
    """Short names of the hexagons of flows that are shown, Z1 the one with most trips; at most NAMED_MOST."""
    shown = flows[~flows["suppressed"].astype(bool)]
    ends = [shown[["origin_h3_r7", "trips"]], shown[["destination_h3_r7", "trips"]]]
    listed = pd.concat([each.set_axis(["cell", "trips"], axis=1) for each in ends])
    total = listed.groupby("cell")["trips"].sum().reset_index()
    busiest = total.sort_values(["trips", "cell"], ascending=[False, True]).head(NAMED_MOST)
    return {cell: f"Z{place}" for place, cell in enumerate(busiest["cell"], 1)}


def flow_layers(flows: pd.DataFrame, named: Mapping[str, str]) -> list[pdk.Layer]:
    """Hexagons with their names and an arc a flow, as wide as its trips; trips within one fill it."""
    shown = flows[flows["origin_h3_r7"].isin(list(named)) & flows["destination_h3_r7"].isin(list(named))]
    rows = rows_of(shown[~shown["suppressed"].astype(bool)])
    most = max((row["trips"] for row in rows), default=1)
    within = {row["origin_h3_r7"]: row for row in rows if row["origin_h3_r7"] == row["destination_h3_r7"]}
    arcs = [_arc(row, named, most) for row in rows if row["origin_h3_r7"] != row["destination_h3_r7"]]
    return [_hexagons(named, within), _arcs(arcs), _labels(named)]


def _hexagons(named: Mapping[str, str], within: Mapping[str, Record]) -> pdk.Layer:
    data = [
        {
            "polygon": [[x, y] for y, x in h3.cell_to_boundary(cell)],
            "tip": f"{name}: " + _told(within[cell])
            if cell in within
            else f"{name}: no flow within it is shown",
        }
        for cell, name in named.items()
    ]
    return pdk.Layer(
        "PolygonLayer",
        data,
        id="zones",
        get_polygon="polygon",
        get_fill_color=list(rgba(SERIES[2], 26)),
        get_line_color=list(rgba(SERIES[2], 170)),
        line_width_min_pixels=1,
        pickable=True,
    )


def _arcs(arcs: list[Record]) -> pdk.Layer:
    return pdk.Layer(
        "ArcLayer",
        arcs,
        id="flows",
        get_source_position="from",
        get_target_position="to",
        get_width="width",
        get_source_color=list(rgba(SERIES[0], 220)),
        get_target_color=list(rgba(SERIES[1], 220)),
        get_tilt=25,
        get_height=0.35,
        pickable=True,
        auto_highlight=True,
    )


def _labels(named: Mapping[str, str]) -> pdk.Layer:
    data: list[dict[str, Any]] = [{"at": _centre(cell), "name": name} for cell, name in named.items()]
    return pdk.Layer(
        "TextLayer",
        data,
        id="zone_names",
        get_position="at",
        get_text="name",
        get_size=13,
        get_color=[255, 255, 255, 255],
        background=True,
        get_background_color=[60, 74, 90, 230],
        background_padding=[5, 2, 5, 2],
        parameters={"depthTest": False},
        pickable=False,
    )


def _arc(row: Record, named: Mapping[str, str], most: float) -> Record:
    origin, destination = row["origin_h3_r7"], row["destination_h3_r7"]
    return {
        "from": _centre(origin),
        "to": _centre(destination),
        "width": round(NARROWEST_PX + (WIDEST_PX - NARROWEST_PX) * row["trips"] / most, 1),
        "tip": f"{named[origin]} to {named[destination]}: {_told(row)}",
    }


def _told(row: Record) -> str:
    medians = f"{row['duration_min']:.0f} min, {row['distance_km']:.1f} km (medians)"
    return f"about {row['trips']:,.0f} trips, {medians}"


def corner(cell: str) -> tuple[list[float], list[float]]:
    """Latitudes and longitudes of a hexagon's corners, degrees."""
    corners = h3.cell_to_boundary(cell)
    return [lat for lat, _ in corners], [lon for _, lon in corners]


def _centre(cell: str) -> list[float]:
    lat, lon = h3.cell_to_latlng(cell)
    return [round(lon, 6), round(lat, 6)]
