"""Charts of an alert's evidence and of rules: frame in, chart out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import altair as alt
import pandas as pd

from dashboard import evidence
from dashboard.chart_parts import number_axis, top_legend
from dashboard.palette import LIMIT, SERIES, SEVERITIES, SEVERITY_SIGNS
from infra.contract.signals import BY_NAME

HEIGHT_PX: Final = 230
SMALL_PX: Final = 150
LEAST_SHARE: Final = 0.02
"""Of a signal's size, that its axis spans at least."""
LIMIT_COLOUR: Final = "#d9482b"


def value(judged: evidence.Judged, title: str, cleared_s: float | None) -> alt.LayerChart:
    """The rule's value by frame as points on a line, its limit dashed, the opening as an upright line."""
    axis = title + (f", {judged.unit}" if judged.unit else "")
    long = judged.values.melt("s", ["value", "limit"], "series", "y").dropna(subset=["y"])
    domain = ["value", "limit"] if judged.limited else ["value"]
    base = alt.Chart(long).encode(
        x=_x(),
        y=alt.Y("y:Q", title=axis, scale=alt.Scale(zero=False, nice=True), axis=number_axis()),
        color=alt.Color(
            "series:N",
            scale=alt.Scale(domain=domain, range=[SERIES[0], LIMIT_COLOUR][: len(domain)]),
            legend=top_legend(18),
        ),
        tooltip=[
            alt.Tooltip("s:Q", format="+.1f", title="s from opening"),
            "series:N",
            alt.Tooltip("y:Q", format=".2f", title=axis),
        ],
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
    line: Any = (
        alt.Chart(frame)
        .mark_line(
            strokeWidth=1.6, color=SERIES[0], interpolate="step-after" if slow else "linear", point=slow
        )
        .encode(
            x=_x(),
            y=alt.Y(
                "value:Q", title=evidence.unit(name) or None, scale=_scale(frame["value"]), axis=number_axis()
            ),
            tooltip=[
                alt.Tooltip("s:Q", format="+.1f", title="s from opening"),
                alt.Tooltip("value:Q", format=".2f", title=evidence.label(name)),
            ],
        )
    )
    drawn: alt.LayerChart = (line + _marks(cleared_s)).properties(height=SMALL_PX)
    return drawn


def by_day(counted: pd.DataFrame, days: Sequence[date]) -> alt.Chart:
    """Alerts that opened, by day of the reader's zone and the gravest severity of their rule on it."""
    order = list(SEVERITIES)
    named = counted.assign(
        severity=[order[int(w) - 1] for w in counted["worst"]], day=counted["day"].astype(str)
    )
    summed = named.groupby(["day", "severity"], as_index=False)["alerts"].sum()
    labels = {s: f"{SEVERITY_SIGNS[s]} {s}" for s in order}
    summed["severity"] = summed["severity"].map(labels)
    chart: alt.Chart = (
        alt.Chart(summed)
        .mark_bar()
        .encode(
            x=alt.X(
                "day:O",
                title=None,
                scale=alt.Scale(domain=[str(day) for day in days]),
                axis=alt.Axis(labelAngle=0, labelOverlap=True, grid=False),
            ),
            y=alt.Y("alerts:Q", title="alerts opened", axis=number_axis()),
            color=alt.Color(
                "severity:N",
                scale=alt.Scale(domain=list(labels.values()), range=list(SEVERITIES.values())),
                sort=list(labels.values()),
                legend=top_legend(18),
            ),
            tooltip=["day:O", "severity:N", alt.Tooltip("alerts:Q", format=",")],
        )
    )
    sized: alt.Chart = chart.properties(height=HEIGHT_PX)
    return sized


def _marks(cleared_s: float | None) -> alt.LayerChart:
    """Upright lines with a word beside: where the alert opened, and where it ended if that is near."""
    found = [(0.0, "opened")]
    if cleared_s is not None and cleared_s <= evidence.AROUND_S:
        found.append((cleared_s, "cleared"))
    base = alt.Chart(pd.DataFrame(found, columns=["s", "mark"]))
    rule = base.mark_rule(color=LIMIT, strokeWidth=1.3).encode(x="s:Q")
    word = base.mark_text(align="left", dx=-2, dy=-4, color=LIMIT, baseline="bottom").encode(
        x="s:Q", y=alt.value(0), text="mark:N"
    )
    both: alt.LayerChart = rule + word
    return both


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
