"""Charts, map layers and tables of traffic by hour, of flows between hexagons, and of arrivals. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import altair as alt
import h3
import pandas as pd
import pydeck as pdk

from dashboard.shared import text
from dashboard.shared.charts import HEIGHT_PX, tip
from dashboard.shared.maps import Record, rows_of
from dashboard.shared.text import Columns, clock
from dashboard.shared.theme import LIMIT, SERIES, rgba

CELL_PX: Final = 34
HOURS: Final = [f"{hour:02d}:00" for hour in range(24)]
BLUES: Final = ["#d6e6f5", "#1a5a96"]


def delay(hours: pd.DataFrame, chosen: str | None = None) -> alt.LayerChart:
    """Travel time index (time over that at free flow) by ``hour`` (08:00); the ``chosen`` one stands out."""
    axis = alt.Axis(labelAngle=0, labelOverlap=True)
    index = alt.Y(
        "travel_time_index:Q",
        title="travel time index",
        scale=alt.Scale(zero=True),
        axis=alt.Axis(tickCount=4),
    )
    base = alt.Chart(hours).encode(
        x=alt.X("hour:O", title="hour of the day", scale=alt.Scale(domain=HOURS), axis=axis),
        tooltip=[
            alt.Tooltip("hour:O", title="hour"),
            tip("travel_time_index", ".2f", "time over free flow"),
            tip("speed_kmh", ".1f", "km/h"),
            tip("distance_km", ",.0f", "km driven"),
        ],
    )
    bars = base.mark_bar(cornerRadiusEnd=2).encode(
        y=index,
        color=alt.condition(f"datum.hour === '{chosen}'", alt.value(SERIES[1]), alt.value(SERIES[0])),
    )
    free = alt.Chart(pd.DataFrame({"y": [1.0]})).mark_rule(color=LIMIT, strokeDash=[4, 3]).encode(y="y:Q")
    both: alt.LayerChart = (bars + free).properties(height=HEIGHT_PX)
    return both


def matrix(flows: pd.DataFrame, named: Mapping[str, str]) -> alt.LayerChart:
    """Trips from each hexagon to each; an empty field is none, or fewer than may be shown."""
    shown = flows[~flows["suppressed"].astype(bool)].assign(
        origin=flows["origin_h3_r7"].map(named), destination=flows["destination_h3_r7"].map(named)
    )
    shown = shown.dropna(subset=["origin", "destination"])
    order = list(named.values())
    base = alt.Chart(shown[["origin", "destination", "trips", "duration_min", "distance_km"]]).encode(
        x=alt.X("destination:N", title="to", sort=order, axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("origin:N", title="from", sort=order),
        tooltip=[
            "origin:N",
            "destination:N",
            alt.Tooltip("trips:Q", title="trips, about"),
            alt.Tooltip("duration_min:Q", title="median, min"),
            alt.Tooltip("distance_km:Q", title="median, km"),
        ],
    )
    tiles = base.mark_rect(cornerRadius=3).encode(
        color=alt.Color("trips:Q", scale=alt.Scale(range=BLUES), legend=None)
    )
    middle = (shown["trips"].max() + shown["trips"].min()) / 2 if len(shown) else 0
    words = base.mark_text(fontSize=12).encode(
        text="trips:Q",
        color=alt.condition(f"datum.trips > {middle}", alt.value("#ffffff"), alt.value("#1d2733")),
    )
    both: alt.LayerChart = (tiles + words).properties(height=alt.Step(CELL_PX))
    return both


def horizons(quality: pd.DataFrame, column: str, unit: str, signed: bool = False) -> alt.LayerChart:
    """One measure of predictions by how long before the arrival they were made."""
    kept = quality.assign(
        horizon=[horizon(a, b) for a, b in zip(quality["from_min"], quality["to_min"], strict=True)]
    )
    base = alt.Chart(kept).encode(
        x=alt.X(
            "horizon:O", title="made so long before the arrival, min", sort=None, axis=alt.Axis(labelAngle=0)
        ),
        tooltip=[
            alt.Tooltip("horizon:O", title="min before"),
            tip(column, "+.1f" if signed else ".1f", unit),
            alt.Tooltip("predictions:Q", format=","),
        ],
    )
    bars = base.mark_bar(color=SERIES[0], cornerRadiusEnd=2, size=46).encode(
        y=alt.Y(f"{column}:Q", title=unit, scale=alt.Scale(zero=True, nice=True))
    )
    rule = alt.Chart(pd.DataFrame({"y": [0.0]})).mark_rule(color=LIMIT).encode(y="y:Q")
    both: alt.LayerChart = (bars + rule).properties(height=HEIGHT_PX + 30)
    return both


def horizon(from_min: float, to_min: float) -> str:
    """``2-5``, ``60+``."""
    return f"{float(from_min):g}+" if float(to_min) >= 1440 else f"{float(from_min):g}-{float(to_min):g}"


PREDICTIONS: Final[Columns] = {
    "Vehicle": "vehicle_id",
    "Arrives": ("arrival_at", clock),
    "To go, km": ("distance_m", lambda far: None if text.missing(far) else round(far / 1000, 1)),
    "Predicted": ("made_at", clock),
    "Asked": ("asked_at", clock),
}
"""Predictions of vehicles that are under way."""


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
    def words(cell: str) -> str:
        return _told(within[cell]) if cell in within else "no flow within it is shown"

    return pdk.Layer(
        "PolygonLayer",
        [
            {"polygon": [[x, y] for y, x in h3.cell_to_boundary(cell)], "tip": f"{name}: {words(cell)}"}
            for cell, name in named.items()
        ],
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
    return pdk.Layer(
        "TextLayer",
        [{"at": _centre(cell), "name": name} for cell, name in named.items()],
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


def _centre(cell: str) -> list[float]:
    lat, lon = h3.cell_to_latlng(cell)
    return [round(lon, 6), round(lat, 6)]
