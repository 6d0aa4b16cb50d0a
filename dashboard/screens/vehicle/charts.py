"""Charts of one vehicle and its trace on the map: frame in, drawing or layer out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import altair as alt
import pandas as pd
import pydeck as pdk

from dashboard.shared import charts as parts
from dashboard.shared.charts import Drawing, Window, described, tip, tip_time
from dashboard.shared.maps import Record, joined, literal, placed, rows_of
from dashboard.shared.theme import LIMIT, SERIES, STATES, rgba, speed_colour

A_DAY: Final = pd.Timedelta(hours=26)
TALL_PX: Final = 290
FORECAST_PX: Final = 170
LIMITED: Final = "limit"
SPEEDS: Final = {"speed_mean_kmh": "mean", "speed_max_kmh": "highest", "speed_limit_kmh": LIMITED}
SPEED_COLOURS: Final = {"mean": SERIES[0], "highest": "#7fb8e6", LIMITED: LIMIT}
HOURS, PAST, AHEAD, THRESHOLD = "hours", "past", "ahead", "threshold"
"""Parts of a forecast's rows."""
FAR_DAYS: Final = 30.0
"""A line is not drawn further ahead than this, days."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Columns of a vehicle's history with their labels, in one unit; ``zero``: the axis starts at 0."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    zero: bool = False


_TYRES: Final = (
    ("tyre_fl_kpa20", "front L"),
    ("tyre_fr_kpa20", "front R"),
    ("tyre_rl_kpa20", "rear L"),
    ("tyre_rr_kpa20", "rear R"),
)
HEALTH: Final[tuple[Panel, ...]] = (
    Panel("Coolant", "°C", (("coolant_mean_c", "mean"), ("coolant_max_c", "highest"))),
    Panel("Oil pressure, lowest", "kPa", (("oil_pressure_min_kpa", "lowest"),), zero=True),
    Panel("Oil temperature, highest", "°C", (("oil_temp_max_c", "highest"),)),
    Panel("12 V system", "V", (("battery_mean_v", "mean"), ("battery_min_v", "lowest"))),
    Panel("Tyre pressure at 20 °C", "kPa", _TYRES),
    Panel("State of charge", "%", (("soc_pct", "charge"),)),
    Panel("Cell temperature, highest", "°C", (("cell_temp_max_c", "highest"),)),
    Panel("Cell spread, largest", "mV", (("cell_spread_max_mv", "largest"),), zero=True),
    Panel("Motor temperature, highest", "°C", (("motor_temp_max_c", "highest"),)),
    Panel("Particulate filter soot", "%", (("dpf_soot_max_pct", "soot"),), zero=True),
    Panel("Fuel level", "%", (("fuel_level_pct", "level"),)),
)


def present(frame: pd.DataFrame) -> list[Panel]:
    """The panels that have at least one value: a car without an engine has no coolant."""
    return [panel for panel in HEALTH if _columns(frame, panel.lines)]


def with_gaps(frame: pd.DataFrame, time: str, step_s: float) -> pd.DataFrame:
    """The rows with an empty one put after each step that is missing, so that lines break there."""
    if frame.empty:
        return frame
    whole = frame.sort_values(time)
    step = pd.Timedelta(seconds=step_s)
    before_gap = whole[time].diff().shift(-1) > step
    holes = pd.DataFrame({time: whole.loc[before_gap, time] + step})
    return pd.concat([whole, holes]).sort_values(time, ignore_index=True)


def panel(frame: pd.DataFrame, spec: Panel, time: str, window: Window | None = None) -> Drawing:
    """Lines over time: one colour a column, a legend where there are several."""
    columns = _columns(frame, spec.lines)
    description = _panel(spec.unit, spec.zero, tuple(columns.values()), *_shape(window))
    return Drawing(description, _wide(frame, time, columns), f"{spec.title}, {spec.unit}, over time", window)


@described
def _panel(unit: str, zero: bool, labels: tuple[str, ...], spanned: bool, days: bool) -> alt.Chart:
    several = len(labels) > 1
    colours = alt.Scale(domain=list(labels), range=list(SERIES[: len(labels)]))
    chart: alt.Chart = _folded(labels).mark_line(strokeWidth=1.7, interpolate="linear")
    encoded = chart.encode(
        x=parts.time_axis(spanned, days),
        y=alt.Y("value:Q", title=unit, scale=alt.Scale(zero=zero, nice=True), axis=parts.number_axis()),
        color=alt.Color("series:N", scale=colours, legend=parts.top_legend() if several else None),
        tooltip=[tip_time("time"), "series:N", tip("value", ".2f", unit)],
    )
    return parts.finish(encoded, legend=several)


def speed(frame: pd.DataFrame, time: str, window: Window | None = None) -> Drawing:
    """Mean and highest speed with the limit in force as a stepped line, km/h."""
    columns = _columns(frame, tuple(SPEEDS.items()))
    description = _speed(tuple(columns.values()), *_shape(window))
    return Drawing(description, _wide(frame, time, columns), "Speed and its limit, km/h, over time", window)


@described
def _speed(labels: tuple[str, ...], spanned: bool, days: bool) -> alt.LayerChart:
    colours = alt.Scale(domain=list(labels), range=[SPEED_COLOURS[label] for label in labels])
    base = _folded(labels).encode(
        x=parts.time_axis(spanned, days),
        y=alt.Y("value:Q", title="km/h", scale=alt.Scale(zero=True, nice=True), axis=parts.number_axis()),
        color=alt.Color("series:N", scale=colours, legend=parts.top_legend()),
        tooltip=[tip_time("time"), "series:N", tip("value", ".1f", "km/h")],
    )
    drawn: Any = alt.layer(base.transform_filter(f"datum.series != '{LIMITED}'").mark_line(strokeWidth=1.7))
    if LIMITED in labels:
        limit = base.transform_filter(f"datum.series == '{LIMITED}'")
        drawn = drawn + limit.mark_line(strokeWidth=1.3, strokeDash=[4, 3], interpolate="step-after")
    sized: alt.LayerChart = drawn.properties(height=TALL_PX)
    return sized


def _columns(frame: pd.DataFrame, lines: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The columns that have a value, with their labels."""
    return {c: label for c, label in lines if c in frame and frame[c].notna().any()}


def _wide(frame: pd.DataFrame, time: str, columns: dict[str, str]) -> pd.DataFrame:
    """``time`` and a column a line, by its label."""
    return frame[[time, *columns]].rename(columns={time: "time"} | columns)


def _folded(labels: tuple[str, ...]) -> alt.Chart:
    """Over wide rows, as ``series`` and ``value``: the browser does what would cost the server most."""
    return alt.Chart().transform_fold(list(labels), as_=["series", "value"])


def _shape(window: Window | None) -> tuple[bool, bool]:
    """Whether the axis of time has ends of its own, and whether it needs dates."""
    return window is not None, window is not None and window[1] - window[0] > A_DAY


def forecast(hours: pd.DataFrame, trend: Mapping[str, Any], time: str = "bucket") -> Drawing:
    """Points of the hours, the robust line of ``trend`` and its continuation, the threshold."""
    unit = str(trend["unit"])
    points = hours[[time, "value"]].rename(columns={time: "time"}).assign(part=HOURS)
    bound = pd.DataFrame({"value": [float(trend["threshold"])], "part": [THRESHOLD]})
    rows = pd.concat([points, line_of(trend), bound], ignore_index=True)
    return Drawing(_forecast(unit), rows, f"Trend and threshold, {unit}, over days")


@described
def _forecast(unit: str) -> alt.LayerChart:
    value = alt.Y("value:Q", title=unit, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=4))
    when = alt.X("time:T", axis=alt.Axis(title=None, grid=False, tickCount=5, format="%d %b"))
    tips = [tip_time("time"), tip("value", ".1f", unit)]
    hours, past, ahead, threshold = (
        alt.Chart().transform_filter(f"datum.part == '{part}'") for part in (HOURS, PAST, AHEAD, THRESHOLD)
    )
    line: dict[str, Any] = {"color": SERIES[1], "strokeWidth": 2}
    points = hours.mark_point(color=SERIES[0], opacity=0.55, size=16, filled=True)
    drawn: Any = alt.layer(
        points.encode(x=when, y=value, tooltip=tips),
        past.mark_line(**line).encode(x="time:T", y="value:Q"),
        ahead.mark_line(**line, strokeDash=[4, 4]).encode(x="time:T", y="value:Q"),
        threshold.mark_rule(color=LIMIT, strokeDash=[2, 3]).encode(y="value:Q"),
    )
    sized: alt.LayerChart = drawn.properties(height=FORECAST_PX)
    return sized


def line_of(trend: Mapping[str, Any]) -> pd.DataFrame:
    """The line in two parts: over the hours it is of, and ahead until it meets the threshold."""
    as_of, value, slope = trend["as_of"], float(trend["value"]), float(trend["slope_per_day"])
    days = trend["days_to_threshold"]
    ahead = min(FAR_DAYS, float(days)) if days is not None and not pd.isna(days) else 0.0
    moments = [
        (PAST, -float(trend["span_days"])),
        (PAST, 0.0),
        *(((AHEAD, 0.0), (AHEAD, ahead)) if ahead else ()),
    ]
    return pd.DataFrame(
        [(part, as_of + pd.Timedelta(days=d), value + slope * d) for part, d in moments],
        columns=["part", "time", "value"],
    )


def trace(points: pd.DataFrame) -> pdk.Layer:
    """The path of one vehicle in pieces coloured by speed; broken where it was silent or jumped."""
    rows = rows_of(placed(points))
    return pdk.Layer(
        "LineLayer",
        [_piece(a, b) for a, b in pairwise(rows) if joined(a, b)],
        id="trace",
        get_source_position="from",
        get_target_position="to",
        get_color="colour",
        get_width=4,
        width_units=literal("pixels"),
        pickable=True,
    )


def _piece(a: Record, b: Record) -> Record:
    kmh = b["speed_mean_kmh"]
    return {
        "from": [a["lon_deg"], a["lat_deg"]],
        "to": [b["lon_deg"], b["lat_deg"]],
        "colour": list(rgba(STATES["silent"] if kmh is None else speed_colour(kmh))),
        "tip": f"{b['local_time']:%Y-%m-%d %H:%M:%S}\n" + ("no speed" if kmh is None else f"{kmh:.0f} km/h"),
    }
