"""Charts of an alert's evidence and of rules: frame in, chart out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import altair as alt
import pandas as pd

from dashboard.screens.alerts import evidence
from dashboard.shared.charts import number_axis, tip, top_legend, upright
from dashboard.shared.theme import LIMIT, SERIES, SEVERITIES, SEVERITY_SIGNS
from infra.contract.signals import BY_NAME

HEIGHT_PX: Final = 230
SMALL_PX: Final = 150
LEAST_SHARE: Final = 0.02
"""Of a signal's size, that its axis spans at least."""
LIMIT_COLOUR: Final = "#d9482b"


def value(judged: evidence.Judged, title: str, cleared_s: float | None) -> alt.LayerChart:
    """The rule's value by frame as points on a line, its limit dashed, the opening as an upright line."""
    title += f", {judged.unit}" if judged.unit else ""
    long = judged.values.melt("s", ["value", "limit"], "series", "y").dropna(subset=["y"])
    domain = ["value", "limit"] if judged.limited else ["value"]
    colours = alt.Scale(domain=domain, range=[SERIES[0], LIMIT_COLOUR][: len(domain)])
    base = alt.Chart(long).encode(
        x=_x(),
        y=alt.Y("y:Q", title=title, scale=alt.Scale(zero=False, nice=True), axis=number_axis()),
        color=alt.Color("series:N", scale=colours, legend=top_legend(18)),
        tooltip=[tip("s", "+.1f", "s from opening"), "series:N", tip("y", ".2f", title)],
    )
    lines: Any = base.transform_filter("datum.series == 'value'").mark_line(
        strokeWidth=2, point=alt.OverlayMarkDef(size=22, filled=True)
    )
    if judged.limited:
        limit = base.transform_filter("datum.series == 'limit'")
        lines = lines + limit.mark_line(strokeWidth=1.6, strokeDash=[6, 4])
    drawn: alt.LayerChart = (lines + _marks(cleared_s)).properties(height=HEIGHT_PX)
    return drawn


def signal(frame: pd.DataFrame, name: str, cleared_s: float | None) -> alt.LayerChart:
    """One signal as the vehicle sent it; a slow one, one value a frame, holds until the next."""
    slow = BY_NAME[name].rate == "slow"
    chart = alt.Chart(frame).mark_line(
        strokeWidth=1.6, color=SERIES[0], interpolate="step-after" if slow else "linear", point=slow
    )
    unit, scale = evidence.unit(name) or None, _scale(frame["value"])
    line: Any = chart.encode(
        x=_x(),
        y=alt.Y("value:Q", title=unit, scale=scale, axis=number_axis()),
        tooltip=[tip("s", "+.1f", "s from opening"), tip("value", ".2f", evidence.label(name))],
    )
    drawn: alt.LayerChart = (line + _marks(cleared_s)).properties(height=SMALL_PX)
    return drawn


def by_day(counted: pd.DataFrame, days: Sequence[date]) -> alt.Chart:
    """Alerts that opened, by day of the reader's zone and the gravest severity of their rule on it."""
    labels = [f"{SEVERITY_SIGNS[severity]} {severity}" for severity in SEVERITIES]
    named = counted.assign(
        severity=[labels[int(w) - 1] for w in counted["worst"]], day=counted["day"].astype(str)
    )
    summed = named.groupby(["day", "severity"], as_index=False)["alerts"].sum()
    colours = alt.Scale(domain=labels, range=list(SEVERITIES.values()))
    axis = alt.Axis(labelAngle=0, labelOverlap=True, grid=False)
    bars: alt.Chart = alt.Chart(summed).mark_bar()
    chart: alt.Chart = bars.encode(
        x=alt.X("day:O", title=None, scale=alt.Scale(domain=[str(day) for day in days]), axis=axis),
        y=alt.Y("alerts:Q", title="alerts opened", axis=number_axis()),
        color=alt.Color("severity:N", scale=colours, sort=labels, legend=top_legend(18)),
        tooltip=["day:O", "severity:N", alt.Tooltip("alerts:Q", format=",")],
    ).properties(height=HEIGHT_PX)
    return chart


def _marks(cleared_s: float | None) -> alt.LayerChart:
    """Where the alert opened, and where it ended if that is near."""
    found = [(0.0, "opened")]
    if cleared_s is not None and cleared_s <= evidence.AROUND_S:
        found.append((cleared_s, "cleared"))
    return upright(pd.DataFrame(found, columns=["s", "mark"]), "s", LIMIT)


def _x() -> alt.X:
    around = [-evidence.AROUND_S, evidence.AROUND_S]
    scale = alt.Scale(domain=around, nice=False, clamp=False)
    return alt.X("s:Q", title="s from opening", scale=scale, axis=alt.Axis(grid=False, tickCount=7))


def _scale(values: pd.Series[float]) -> alt.Scale:
    """Around the values, and not closer than a share of them: noise is no event, one value no axis."""
    least, most = values.min(), values.max()
    middle, half = (least + most) / 2, LEAST_SHARE / 2 * max(abs(least), abs(most)) or 0.5
    if not most - least < 2 * half:  # missing values too
        return alt.Scale(zero=False)
    return alt.Scale(zero=False, domain=[middle - half, middle + half])
