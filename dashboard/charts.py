"""Charts of live parts: frame in, drawing out. No SQL, no streamlit.

Times arrive as wall-clock times of the reader's zone without a zone (see ``text.local``). A line breaks where
data is missing; nothing is drawn as 0 that was not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

import altair as alt
import pandas as pd

from dashboard.chart_parts import number_axis, top_legend
from dashboard.drawing import Drawing, Window, described, span_scale
from dashboard.palette import LIMIT, SERIES

HEIGHT_PX: Final = 190
LEGEND_PX: Final = 26
A_DAY: Final = pd.Timedelta(hours=26)
TALL_PX: Final = 290
LIMITED: Final = "limit"
SPEEDS: Final = {"speed_mean_kmh": "mean", "speed_max_kmh": "highest", "speed_limit_kmh": LIMITED}
Chart = TypeVar("Chart", alt.Chart, alt.LayerChart)


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of a vehicle's history: columns with their labels, in one unit.

    ``zero``: the axis starts at 0.
    """

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    zero: bool = False


HEALTH: Final[tuple[Panel, ...]] = (
    Panel("Coolant", "°C", (("coolant_mean_c", "mean"), ("coolant_max_c", "highest"))),
    Panel("Oil pressure, lowest", "kPa", (("oil_pressure_min_kpa", "lowest"),), zero=True),
    Panel("Oil temperature, highest", "°C", (("oil_temp_max_c", "highest"),)),
    Panel("12 V system", "V", (("battery_mean_v", "mean"), ("battery_min_v", "lowest"))),
    Panel(
        "Tyre pressure at 20 °C",
        "kPa",
        (
            ("tyre_fl_kpa20", "front L"),
            ("tyre_fr_kpa20", "front R"),
            ("tyre_rl_kpa20", "rear L"),
            ("tyre_rr_kpa20", "rear R"),
        ),
    ),
    Panel("State of charge", "%", (("soc_pct", "charge"),)),
    Panel("Cell temperature, highest", "°C", (("cell_temp_max_c", "highest"),)),
    Panel("Cell spread, largest", "mV", (("cell_spread_max_mv", "largest"),), zero=True),
    Panel("Motor temperature, highest", "°C", (("motor_temp_max_c", "highest"),)),
    Panel("Particulate filter soot", "%", (("dpf_soot_max_pct", "soot"),), zero=True),
    Panel("Fuel level", "%", (("fuel_level_pct", "level"),)),
)


def present(frame: pd.DataFrame, panels: tuple[Panel, ...] = HEALTH) -> list[Panel]:
    """The panels that have at least one value: a car without an engine has no coolant."""
    return [p for p in panels if any(c in frame and frame[c].notna().any() for c, _ in p.lines)]


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
    columns = [(c, label) for c, label in spec.lines if c in frame and frame[c].notna().any()]
    labels = tuple(label for _, label in columns)
    description = _panel(spec.unit, spec.zero, labels, *_shape(window))
    return Drawing(description, _wide(frame, time, columns), f"{spec.title}, {spec.unit}, over time", window)


@described
def _panel(unit: str, zero: bool, labels: tuple[str, ...], spanned: bool, days: bool) -> alt.Chart:
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=list(labels), range=list(SERIES[: len(labels)])),
        legend=top_legend() if len(labels) > 1 else None,
    )
    chart: alt.Chart = (
        _folded(labels)
        .mark_line(strokeWidth=1.7, interpolate="linear")
        .encode(
            x=_time_axis("time", spanned, days),
            y=alt.Y("value:Q", title=unit, scale=alt.Scale(zero=zero, nice=True), axis=number_axis()),
            color=colour,
            tooltip=tips("time", "series:N", alt.Tooltip("value:Q", format=".2f", title=unit)),
        )
    )
    return _finish(chart, legend=len(labels) > 1)


def speed(frame: pd.DataFrame, time: str, window: Window | None = None) -> Drawing:
    """Mean and highest speed with the limit in force as a stepped line, km/h."""
    columns = [(c, label) for c, label in SPEEDS.items() if frame[c].notna().any()]
    description = _speed(tuple(label for _, label in columns), *_shape(window))
    return Drawing(description, _wide(frame, time, columns), "Speed and its limit, km/h, over time", window)


@described
def _speed(labels: tuple[str, ...], spanned: bool, days: bool) -> alt.LayerChart:
    colours = {"mean": SERIES[0], "highest": "#7fb8e6", LIMITED: LIMIT}
    base = _folded(labels).encode(
        x=_time_axis("time", spanned, days),
        y=alt.Y("value:Q", title="km/h", scale=alt.Scale(zero=True, nice=True), axis=number_axis()),
        color=alt.Color(
            "series:N",
            scale=alt.Scale(domain=list(labels), range=[colours[label] for label in labels]),
            legend=top_legend(),
        ),
        tooltip=tips("time", "series:N", alt.Tooltip("value:Q", format=".1f", title="km/h")),
    )
    lines: Any = base.transform_filter(f"datum.series != '{LIMITED}'").mark_line(strokeWidth=1.7)
    drawn: Any = alt.layer(lines)
    if LIMITED in labels:
        limit = base.transform_filter(f"datum.series == '{LIMITED}'")
        drawn = drawn + limit.mark_line(strokeWidth=1.3, strokeDash=[4, 3], interpolate="step-after")
    sized: alt.LayerChart = drawn.properties(height=TALL_PX)
    return sized


def trend(frame: pd.DataFrame, time: str, column: str, unit: str, zero: bool = True) -> Drawing:
    """One measure over time as a line over a faint area."""
    kept = frame[[time, column]].rename(columns={time: "time", column: "value"})
    few = len(kept) < 3  # a line needs two points to be seen: show those there are
    return Drawing(_trend(unit, zero, few), kept, f"{unit} over time")


@described
def _trend(unit: str, zero: bool, few: bool) -> alt.LayerChart:
    base = alt.Chart().encode(
        x=_time_axis("time", spanned=False, days=False),
        y=alt.Y("value:Q", title=unit, scale=alt.Scale(zero=zero, nice=True), axis=number_axis()),
        tooltip=tips("time", alt.Tooltip("value:Q", format=",.1f", title=unit)),
    )
    area: alt.LayerChart = base.mark_area(color=SERIES[0], opacity=0.12) + base.mark_line(
        color=SERIES[0], strokeWidth=1.7, point=few
    )
    return _finish(area)


def by_query(frame: pd.DataFrame, time: str, column: str, unit: str) -> Drawing:
    """One measure of each streaming query over time."""
    kept = frame[["query", time, column]].rename(columns={time: "time", column: "value"})
    names = tuple(sorted(kept["query"].unique()))
    description = _by_query(names, unit, bool(kept["value"].max() > 1))
    return Drawing(description, kept, f"{unit} of each streaming query over time")


@described
def _by_query(names: tuple[str, ...], unit: str, more_than_one: bool) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart()
        .mark_line(strokeWidth=1.7)
        .encode(
            x=_time_axis("time", spanned=False, days=False),
            y=alt.Y("value:Q", title=unit, scale=_from_zero(more_than_one), axis=_whole_axis()),
            color=alt.Color(
                "query:N",
                scale=alt.Scale(domain=list(names), range=list(SERIES[: len(names)])),
                legend=top_legend(),
            ),
            tooltip=tips("time", "query:N", alt.Tooltip("value:Q", format=",.0f", title=unit)),
        )
    )
    return _finish(chart, legend=True)


def _from_zero(more_than_one: bool) -> alt.Scale:
    """From 0 up; one unit high at least, or all zeros would lie on an axis without numbers."""
    return alt.Scale(domainMin=0, domainMax=alt.Undefined if more_than_one else 1, nice=True)


def _wide(frame: pd.DataFrame, time: str, columns: list[tuple[str, str]]) -> pd.DataFrame:
    """``time`` and a column a line, by its label."""
    return frame[[time, *(c for c, _ in columns)]].rename(columns={time: "time"} | dict(columns))


def _folded(labels: tuple[str, ...]) -> alt.Chart:
    """Over wide rows, as ``series`` and ``value``: the browser does what would cost the server most."""
    return alt.Chart().transform_fold(list(labels), as_=["series", "value"])


def _shape(window: Window | None) -> tuple[bool, bool]:
    """Whether the axis of time has ends of its own, and whether it needs dates."""
    return window is not None, window is not None and window[1] - window[0] > A_DAY


def _time_axis(field: str, spanned: bool, days: bool) -> alt.X:
    axis = alt.Axis(
        title=None, grid=False, labelOverlap=True, tickCount=6, format="%d %b %H:%M" if days else "%H:%M"
    )
    return alt.X(f"{field}:T", scale=span_scale(spanned), axis=axis)


def tips(time: str, *rest: Any) -> list[Any]:
    """The moment, then what is told besides."""
    return [alt.Tooltip(f"{time}:T", format="%Y-%m-%d %H:%M:%S", title="time"), *rest]


def _whole_axis() -> alt.Axis:
    """For counts."""
    return alt.Axis(tickCount=5, labelFlush=False, format=",.0f", tickMinStep=1)


def _finish(chart: Chart, legend: bool = False) -> Chart:
    """The height of all charts; a legend takes nothing away from the plot."""
    return chart.properties(height=HEIGHT_PX + (LEGEND_PX if legend else 0))
