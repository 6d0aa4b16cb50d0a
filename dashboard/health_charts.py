"""Where a slow quantity is heading: its hours, the line through them, and when it meets its threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import altair as alt
import pandas as pd

from dashboard import charts
from dashboard.drawing import Drawing, described
from dashboard.palette import LIMIT, SERIES, SEVERITIES

HIGH_PX: Final = 170
HOURS, PAST, AHEAD, THRESHOLD = "hours", "past", "ahead", "threshold"
"""Parts of a forecast's rows."""
FAR_DAYS: Final = 30.0
"""A line is not drawn further ahead than this, days."""


def forecast(hours: pd.DataFrame, trend: Mapping[str, Any], time: str = "bucket") -> Drawing:
    """Points of the hours, the robust line and its way ahead (dashed), the threshold.

    ``trend`` is a row of serving.vehicle_trend; all times are wall-clock times without a zone.
    """
    unit = str(trend["unit"])
    points = hours[[time, "value"]].rename(columns={time: "time"}).assign(part=HOURS)
    bound = pd.DataFrame({"value": [float(trend["threshold"])], "part": [THRESHOLD]})
    rows = pd.concat([points, line_of(trend), bound], ignore_index=True)
    return Drawing(_forecast(unit), rows, f"Trend and threshold, {unit}, over days")


@described
def _forecast(unit: str) -> alt.LayerChart:
    value = alt.Y("value:Q", title=unit, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=4))
    when = alt.X("time:T", axis=alt.Axis(title=None, grid=False, tickCount=5, format="%d %b"))
    tip = charts.tips("time", alt.Tooltip("value:Q", format=".1f", title=unit))
    points = _of(HOURS).mark_point(color=SERIES[0], opacity=0.55, size=16, filled=True)
    past = _of(PAST).mark_line(color=SERIES[1], strokeWidth=2)
    ahead = _of(AHEAD).mark_line(color=SERIES[1], strokeWidth=2, strokeDash=[4, 4])
    rule = _of(THRESHOLD).mark_rule(color=LIMIT, strokeDash=[2, 3]).encode(y="value:Q")
    drawn: Any = alt.layer(
        points.encode(x=when, y=value, tooltip=tip),
        past.encode(x="time:T", y="value:Q"),
        ahead.encode(x="time:T", y="value:Q"),
        rule,
    )
    sized: alt.LayerChart = drawn.properties(height=HIGH_PX)
    return sized


def _of(part: str) -> alt.Chart:
    """A layer of the rows of one part."""
    return alt.Chart().transform_filter(f"datum.part == '{part}'")


def line_of(trend: Mapping[str, Any]) -> pd.DataFrame:
    """The line in two parts: over the hours it is of, and ahead until it meets the threshold."""
    as_of, value, slope = trend["as_of"], float(trend["value"]), float(trend["slope_per_day"])
    back = float(trend["span_days"])
    days = trend["days_to_threshold"]
    ahead = min(FAR_DAYS, float(days)) if days is not None and not pd.isna(days) else 0.0
    moments = [(PAST, -back), (PAST, 0.0), *(((AHEAD, 0.0), (AHEAD, ahead)) if ahead else ())]
    return pd.DataFrame(
        [(part, as_of + pd.Timedelta(days=d), value + slope * d) for part, d in moments],
        columns=["part", "time", "value"],
    )


def urgency(days: Any) -> str:
    """How near a threshold is, as a severity's colour name; empty where the line does not head there."""
    if days is None or pd.isna(days):
        return ""
    names = list(SEVERITIES)
    return names[1] if days <= 0 else names[2] if days < 7 else names[3]
