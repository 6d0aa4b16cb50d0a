"""Charts of traffic by hour, of flows, and of predicted arrivals. No SQL, no streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import altair as alt
import pandas as pd

from dashboard.charts import HEIGHT_PX
from dashboard.palette import LIMIT, SERIES

CELL_PX: Final = 34
HOURS: Final = [f"{hour:02d}:00" for hour in range(24)]
BLUES: Final = ["#d6e6f5", "#1a5a96"]


def delay(hours: pd.DataFrame, chosen: str | None = None) -> alt.LayerChart:
    """Travel time index (time taken over that at free flow) by hour of the day.

    ``hour`` is text, as 08:00; the ``chosen`` one stands out.
    """
    base = alt.Chart(hours).encode(
        x=alt.X(
            "hour:O",
            title="hour of the day",
            scale=alt.Scale(domain=HOURS),
            axis=alt.Axis(labelAngle=0, labelOverlap=True),
        ),
        tooltip=[
            alt.Tooltip("hour:O", title="hour"),
            alt.Tooltip("travel_time_index:Q", format=".2f", title="time over free flow"),
            alt.Tooltip("speed_kmh:Q", format=".1f", title="km/h"),
            alt.Tooltip("distance_km:Q", format=",.0f", title="km driven"),
        ],
    )
    bars = base.mark_bar(cornerRadiusEnd=2).encode(
        y=alt.Y(
            "travel_time_index:Q",
            title="travel time index",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(tickCount=4),
        ),
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
            alt.Tooltip(f"{column}:Q", format="+.1f" if signed else ".1f", title=unit),
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
