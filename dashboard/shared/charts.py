"""Charts of live parts: frame in, drawing out. No SQL, no streamlit.

A drawing is a chart whose description is kept and whose rows travel. Altair makes and checks a description in
15 to 60 ms of CPU, in part under a lock that all readers share. A live chart's description hardly ever
changes, so it is made once for all; a refresh costs what its rows cost.

Times arrive as wall-clock times of the reader's zone without a zone (see ``text.local``). A line breaks where
data is missing; nothing is drawn as 0 that was not measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

import altair as alt
import pandas as pd

from dashboard.shared.theme import SERIES

P = ParamSpec("P")
Window = tuple[pd.Timestamp, pd.Timestamp]
Chart = TypeVar("Chart", alt.Chart, alt.LayerChart)

HEIGHT_PX: Final = 190
LEGEND_PX: Final = 26
KEPT: Final = 256
"""Descriptions of a kind of chart that are kept, at most."""
FOREIGN: Final = ("$schema", "config", "data", "datasets")
"""What Altair adds: the page has a theme of its own, and rows that no layer may cover with empty ones."""
SPAN: Final = ("since", "until")
"""Stands in a description for the ends of the time shown, which no description keeps."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A description (Vega-Lite) and its rows; ``window``: ends of its time; ``alt``: its text."""

    description: str
    rows: pd.DataFrame
    alt: str
    window: Window | None = None

    @property
    def spec(self) -> dict[str, Any]:
        """The description as Vega-Lite takes it, over this window; without rows."""
        text = self.description
        for name, end in zip(SPAN, self.window or (), strict=False):
            text = text.replace(json.dumps(f"@{name}"), json.dumps(end.isoformat()))
        spec: dict[str, Any] = json.loads(text)
        return spec


def described(build: Callable[P, alt.Chart | alt.LayerChart]) -> Callable[P, str]:
    """``build`` (a chart without data) as a function of its description, made once for its arguments."""

    @wraps(build)
    def make(*args: P.args, **kwargs: P.kwargs) -> str:
        spec = build(*args, **kwargs).to_dict()
        for part in (spec, *spec.get("layer", [])):
            for name in FOREIGN:
                part.pop(name, None)
        return json.dumps(spec)

    return cast(Callable[P, str], lru_cache(KEPT)(make))


def trend(frame: pd.DataFrame, time: str, column: str, unit: str) -> Drawing:
    """One measure over time as a line over a faint area."""
    kept = frame[[time, column]].rename(columns={time: "time", column: "value"})
    few = len(kept) < 3  # a line needs two points to be seen: show those there are
    return Drawing(_trend(unit, few), kept, f"{unit} over time")


@described
def _trend(unit: str, few: bool) -> alt.LayerChart:
    base = alt.Chart().encode(
        x=time_axis(),
        y=alt.Y("value:Q", title=unit, scale=alt.Scale(zero=True, nice=True), axis=number_axis()),
        tooltip=[tip_time("time"), tip("value", ",.1f", unit)],
    )
    area: alt.LayerChart = base.mark_area(color=SERIES[0], opacity=0.12) + base.mark_line(
        color=SERIES[0], strokeWidth=1.7, point=few
    )
    return finish(area)


def by_query(frame: pd.DataFrame, time: str, column: str, unit: str) -> Drawing:
    """One measure of each streaming query over time."""
    kept = frame[["query", time, column]].rename(columns={time: "time", column: "value"})
    names = tuple(sorted(kept["query"].unique()))
    description = _by_query(names, unit, bool(kept["value"].max() > 1))
    return Drawing(description, kept, f"{unit} of each streaming query over time")


@described
def _by_query(names: tuple[str, ...], unit: str, more_than_one: bool) -> alt.Chart:
    # one unit high at least, or all zeros would lie on an axis without numbers
    scale = alt.Scale(domainMin=0, domainMax=alt.Undefined if more_than_one else 1, nice=True)
    axis = alt.Axis(tickCount=5, labelFlush=False, format=",.0f", tickMinStep=1)
    colours = alt.Scale(domain=list(names), range=list(SERIES[: len(names)]))
    chart: alt.Chart = alt.Chart().mark_line(strokeWidth=1.7)
    encoded = chart.encode(
        x=time_axis(),
        y=alt.Y("value:Q", title=unit, scale=scale, axis=axis),
        color=alt.Color("query:N", scale=colours, legend=top_legend()),
        tooltip=[tip_time("time"), "query:N", tip("value", ",.0f", unit)],
    )
    return finish(encoded, legend=True)


def number_axis(grid: bool = True) -> alt.Axis:
    """Few ticks."""
    return alt.Axis(grid=grid, tickCount=5, labelFlush=False)


def time_axis(spanned: bool = False, days: bool = False) -> alt.X:
    """Of ``time``; ``spanned``: from end to end of the drawing's window, ``days``: with dates."""
    form = "%d %b %H:%M" if days else "%H:%M"
    axis = alt.Axis(title=None, grid=False, labelOverlap=True, tickCount=6, format=form)
    scale = alt.Scale(domain=[f"@{name}" for name in SPAN], nice=False) if spanned else alt.Scale()
    return alt.X("time:T", scale=scale, axis=axis)


def top_legend(offset: int = 5) -> alt.Legend:
    """Above the chart, strokes for lines; ``offset`` in px: more where words stand on the chart's top."""
    return alt.Legend(
        title=None, orient="top", direction="horizontal", offset=offset, padding=0, symbolType="stroke"
    )


def tip(name: str, form: str, title: str) -> alt.Tooltip:
    """A number of the tooltip."""
    return alt.Tooltip(f"{name}:Q", format=form, title=title)


def tip_time(name: str) -> alt.Tooltip:
    """The moment in the tooltip."""
    return alt.Tooltip(f"{name}:T", format="%Y-%m-%d %H:%M:%S", title="time")


def finish(chart: Chart, legend: bool = False) -> Chart:
    """The height of all charts; a legend takes nothing away from the plot."""
    return chart.properties(height=HEIGHT_PX + (LEGEND_PX if legend else 0))


def upright(marks: pd.DataFrame, x: str, colour: str) -> alt.LayerChart:
    """Upright lines at column ``x`` of ``marks`` with the word of ``mark`` beside."""
    base = alt.Chart(marks)
    rule = base.mark_rule(color=colour, strokeWidth=1.3).encode(x=f"{x}:Q")
    word = base.mark_text(align="left", dx=-2, dy=-4, color=colour, baseline="bottom")
    both: alt.LayerChart = rule + word.encode(x=f"{x}:Q", y=alt.value(0), text="mark:N")
    return both
