"""Charts of a crash record: frame in, chart out. Time zero is 0; before it s, after it ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import altair as alt
import pandas as pd

from dashboard.chart_parts import number_axis, top_legend
from dashboard.palette import LIMIT, SERIES

HEIGHT_PX: Final = 300
PANEL_PX: Final = 140
WITH_FLAGS_PX: Final = 60
BAND_PX: Final = 11
AXES: Final = {"delta_v_kmh": "longitudinal", "delta_v_lat_kmh": "lateral"}
PANELS: Final = {
    "speed_kmh": "speed, km/h",
    "accelerator_pct": "accelerator, %",
    "engine_rpm": "engine, rpm",
    "steering_deg": "steering, °",
}
FLAGS: Final = {"brake_on": "brake", "abs_active": "ABS", "esc_active": "ESC"}
FLAG_COLOURS: Final = (SERIES[1], SERIES[2], SERIES[3])


def delta_v(frame: pd.DataFrame, marks: Mapping[str, Any]) -> alt.LayerChart:
    """Cumulative change of velocity, km/h over ms; upright lines at ``marks``, ms by word."""
    long = frame.rename(columns=AXES).melt("t_ms", list(AXES.values()), "axis", "kmh").dropna(subset=["kmh"])
    there = [name for name in AXES.values() if name in set(long["axis"])]
    lines: Any = (
        alt.Chart(long.astype({"t_ms": float, "kmh": float}))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=18, filled=True))
        .encode(
            x=alt.X("t_ms:Q", title="ms after time zero", axis=number_axis(grid=False)),
            y=alt.Y("kmh:Q", title="delta-V, km/h", axis=number_axis()),
            color=alt.Color(
                "axis:N",
                scale=alt.Scale(domain=there, range=list(SERIES[: len(there)])),
                legend=top_legend(18),
            ),
            strokeDash=alt.StrokeDash(
                "axis:N", scale=alt.Scale(domain=there, range=[[1, 0], [6, 3]][: len(there)]), legend=None
            ),
            tooltip=[
                alt.Tooltip("t_ms:Q", title="ms"),
                "axis:N",
                alt.Tooltip("kmh:Q", format=".1f", title="km/h"),
            ],
        )
    )
    told = [(name, float(at)) for name, at in marks.items() if at is not None]
    if told:
        base = alt.Chart(pd.DataFrame(told, columns=["mark", "t_ms"]))
        lines = (
            lines
            + base.mark_rule(color=LIMIT, strokeWidth=1.3).encode(x="t_ms:Q")
            + base.mark_text(align="left", dx=-2, dy=-4, color=LIMIT, baseline="bottom").encode(
                x="t_ms:Q", y=alt.value(0), text="mark:N"
            )
        )
    drawn: alt.LayerChart = lines.properties(height=HEIGHT_PX)
    return drawn


def panels(frame: pd.DataFrame) -> list[tuple[str, alt.LayerChart]]:
    """A chart for each quantity recorded, with its title; flags that were on are bands in the first."""
    seconds = frame.assign(s=frame["t_ms"].astype(float) / 1000)
    there = [name for name in PANELS if seconds[name].notna().any()]
    return [(PANELS[name], _panel(seconds, name, flags=place == 0)) for place, name in enumerate(there)]


def _panel(frame: pd.DataFrame, name: str, flags: bool) -> alt.LayerChart:
    span = [float(frame["s"].min()), 0.0]
    x = alt.X(
        "s:Q",
        title="s before time zero",
        scale=alt.Scale(domain=span, nice=False),
        axis=number_axis(grid=False),
    )
    line: Any = (
        alt.Chart(frame.astype({name: float})[["s", name]])
        .mark_line(strokeWidth=1.8, color=SERIES[0])
        .encode(
            x=x,
            y=alt.Y(
                f"{name}:Q",
                title=PANELS[name].rpartition(", ")[2],
                scale=alt.Scale(zero=name != "steering_deg"),
                axis=number_axis(),
            ),
            tooltip=[
                alt.Tooltip("s:Q", format=".1f"),
                alt.Tooltip(f"{name}:Q", format=".1f", title=PANELS[name]),
            ],
        )
    )
    drawn: Any = alt.layer(*(_flags(frame, x) if flags else []), line)
    sized: alt.LayerChart = drawn.properties(height=PANEL_PX + (WITH_FLAGS_PX if flags else 0))
    return sized


def _flags(frame: pd.DataFrame, x: alt.X) -> list[alt.Chart]:
    """While a flag was on: a band at the bottom, a row a flag, named in the legend."""
    step = float(frame["s"].diff().median())
    there = {name: word for name, word in FLAGS.items() if (frame[name] == True).any()}  # noqa: E712  nulls
    words = list(there.values())
    colours = [FLAG_COLOURS[list(FLAGS).index(name)] for name in there]
    colour = alt.Color("flag:N", scale=alt.Scale(domain=words, range=colours), legend=top_legend(18))
    return [
        _band(on.assign(until=on["s"] + step, flag=word), place, x, colour)
        for place, (name, word) in enumerate(there.items())
        for on in [frame.loc[frame[name] == True, ["s"]]]  # noqa: E712
    ]


def _band(on: pd.DataFrame, place: int, x: alt.X, colour: alt.Color) -> alt.Chart:
    """One row of bands, in pixels from the bottom: it has no share in the chart's scale."""
    top = PANEL_PX + WITH_FLAGS_PX - 2 - (place + 1) * BAND_PX
    chart: alt.Chart = (
        alt.Chart(on)
        .mark_rect(clip=True)
        .encode(
            x=x,
            x2="until:Q",
            y=alt.value(top),
            y2=alt.value(top + BAND_PX - 3),
            color=colour,
            tooltip=["flag:N", alt.Tooltip("s:Q", format=".1f")],
        )
    )
    return chart
