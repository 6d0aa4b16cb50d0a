"""Charts, map layers and tables of traffic by hour, of flows between hexagons, and of arrivals. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import h3
import pandas as pd
import pydeck as pdk

from dashboard.shared import text
from dashboard.shared.charts import HEIGHT_PX, ZERO, Drawing, drawing, layer, level, number, tip, words
from dashboard.shared.maps import polygons
from dashboard.shared.text import Columns, clock, rows_of
from dashboard.shared.theme import SERIES, rgba

CELL_PX: Final = 34
HOURS: Final = [f"{hour:02d}:00" for hour in range(24)]
BLUES: Final = ["#d6e6f5", "#1a5a96"]


def delay(hours: pd.DataFrame, chosen: str | None = None) -> Drawing:
    """Travel time index (time over that at free flow) by ``hour`` (08:00); the ``chosen`` one stands out."""
    hour = {"field": "hour", "type": "ordinal"}
    axis = {"labelAngle": 0, "labelOverlap": True}
    stands_out = {"test": f"datum.hour === '{chosen}'", "value": SERIES[1]}
    encoding = {
        "x": hour | {"title": "hour of the day", "scale": {"domain": HOURS}, "axis": axis},
        "y": number("travel_time_index", "travel time index", {"zero": True}, tickCount=4, labelFlush=True),
        "color": {"condition": stands_out, "value": SERIES[0]},
        "tooltip": [
            hour | {"title": "hour"},
            tip("travel_time_index", ".2f", "time over free flow"),
            tip("speed_kmh", ".1f", "km/h"),
            tip("distance_km", ",.0f", "km driven"),
        ],
    }
    free = level("travel_time_index", 1.0, strokeDash=[4, 3])
    rows = hours[["hour", "travel_time_index", "speed_kmh", "distance_km"]]
    return drawing(rows, "Delay by hour", HEIGHT_PX, layer("bar", encoding, cornerRadiusEnd=2), free)


def matrix(flows: pd.DataFrame, named: Mapping[str, str]) -> Drawing:
    """Trips from each hexagon to each; an empty field is none, or fewer than may be shown."""
    shown = flows[~flows["suppressed"].astype(bool)].assign(
        origin=flows["origin_h3_r7"].map(named), destination=flows["destination_h3_r7"].map(named)
    )
    shown = shown.dropna(subset=["origin", "destination"])
    order = list(named.values())
    middle = (shown["trips"].max() + shown["trips"].min()) / 2 if len(shown) else 0
    place = {
        "x": words("destination", title="to", sort=order, axis={"labelAngle": 0, "orient": "top"}),
        "y": words("origin", title="from", sort=order),
        "tooltip": [
            words("origin"),
            words("destination"),
            tip("trips", "", "trips, about"),
            tip("duration_min", "", "median, min"),
            tip("distance_km", "", "median, km"),
        ],
    }
    trips = {"field": "trips", "type": "quantitative"}
    dark = {"condition": {"test": f"datum.trips > {middle}", "value": "#ffffff"}, "value": "#1d2733"}
    return drawing(
        shown[["origin", "destination", "trips", "duration_min", "distance_km"]],
        "Trips between hexagons",
        {"step": CELL_PX},
        layer("rect", place | {"color": trips | {"scale": {"range": BLUES}, "legend": None}}, cornerRadius=3),
        layer("text", place | {"text": trips, "color": dark}, fontSize=12),
    )


def horizons(quality: pd.DataFrame, column: str, unit: str, signed: bool = False) -> Drawing:
    """One measure of predictions by how long before the arrival they were made."""
    ends = zip(quality["from_min"].astype(float), quality["to_min"].astype(float), strict=True)
    named = [f"{a:g}+" if b >= 1440 else f"{a:g}-{b:g}" for a, b in ends]
    horizon = {"field": "horizon", "type": "ordinal"}
    x = {"title": "made so long before the arrival, min", "sort": None, "axis": {"labelAngle": 0}}
    tips = [tip(column, "+.1f" if signed else ".1f", unit), tip("predictions", ",", "predictions")]
    encoding = {
        "x": horizon | x,
        "y": number(column, unit, ZERO, tickCount=4, labelFlush=True),
        "tooltip": [horizon | {"title": "min before"}, *tips],
    }
    rows = quality[[column, "predictions"]].assign(horizon=named)
    bars = layer("bar", encoding, color=SERIES[0], cornerRadiusEnd=2, size=46)
    return drawing(rows, f"{unit}, by horizon", HEIGHT_PX + 30, bars, level(column, 0.0))


PREDICTIONS: Final[Columns] = {  # predictions of vehicles that are under way
    "Vehicle": "vehicle_id",
    "Arrives": ("arrival_at", clock),
    "To go, km": ("distance_m", lambda far: None if text.missing(far) else round(far / 1000, 1)),
    "Predicted": ("made_at", clock),
    "Asked": ("asked_at", clock),
}

WIDEST_PX: Final = 14.0
NARROWEST_PX: Final = 1.5
NAMED_MOST: Final = 24  # hexagons with a name of their own, the busiest first; a matrix of more is not read


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
    told = {}
    for row in rows:
        medians = f"{row['duration_min']:.0f} min, {row['distance_km']:.1f} km (medians)"
        words = f"about {row['trips']:,.0f} trips, {medians}"
        told[row["origin_h3_r7"], row["destination_h3_r7"]] = (row["trips"], words)
    zones = [
        {
            "polygon": [[x, y] for y, x in h3.cell_to_boundary(cell)],
            "tip": f"{name}: {told.get((cell, cell), (0, 'no flow within it is shown'))[1]}",
        }
        for cell, name in named.items()
    ]
    arcs = [
        {
            "from": _centre(origin),
            "to": _centre(destination),
            "width": round(NARROWEST_PX + (WIDEST_PX - NARROWEST_PX) * trips / most, 1),
            "tip": f"{named[origin]} to {named[destination]}: {words}",
        }
        for (origin, destination), (trips, words) in told.items()
        if origin != destination
    ]
    rim: Any = {"get_line_color": list(rgba(SERIES[2], 170)), "line_width_min_pixels": 1}
    ends: Any = {"get_source_position": "from", "get_target_position": "to", "get_width": "width"}
    blue, orange = (list(rgba(colour, 220)) for colour in SERIES[:2])
    ends |= {"get_source_color": blue, "get_target_color": orange, "get_tilt": 25, "get_height": 0.35}
    label: Any = {"get_text": "name", "get_size": 13, "get_color": [255, 255, 255, 255], "background": True}
    label |= {"get_background_color": [60, 74, 90, 230], "background_padding": [5, 2, 5, 2]}
    centres = [{"at": _centre(cell), "name": name} for cell, name in named.items()]
    above: Any = {"parameters": {"depthTest": False}, "pickable": False}
    return [
        polygons(zones, "zones", get_fill_color=list(rgba(SERIES[2], 26)), **rim),
        pdk.Layer("ArcLayer", arcs, id="flows", pickable=True, auto_highlight=True, **ends),
        pdk.Layer("TextLayer", centres, id="zone_names", get_position="at", **label, **above),
    ]


def _centre(cell: str) -> list[float]:
    lat, lon = h3.cell_to_latlng(cell)
    return [round(lon, 6), round(lat, 6)]
