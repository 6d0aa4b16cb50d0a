"""Charts of an alert's evidence and of rules: frame in, drawing out."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import pandas as pd

from dashboard.screens.alerts import evidence
from dashboard.shared import charts, text
from dashboard.shared.charts import Drawing, Spec, drawing, layer, number, tip, words
from dashboard.shared.theme import SERIES, SEVERITIES
from infra.contract.signals import BY_NAME

HEIGHT_PX: Final = 230
SMALL_PX: Final = 150
LEAST_SHARE: Final = 0.02  # of a signal's size, that its axis spans at least
COLOURS: Final = {"value": SERIES[0], "limit": "#d9482b"}
_AROUND: Final = {"domain": [-evidence.AROUND_S, evidence.AROUND_S], "nice": False, "clamp": False}
_X: Final = number("s", "s from opening", _AROUND, grid=False, tickCount=7, labelFlush=True)
_TIP: Final = tip("s", "+.1f", "s from opening")


def value(judged: evidence.Judged, title: str, cleared_s: float | None) -> Drawing:
    """The rule's value by frame as points on a line, its limit dashed, the opening as an upright line."""
    title += f", {judged.unit}" if judged.unit else ""
    rows = judged.values.melt("s", ["value", "limit"], "series", "y").dropna(subset=["y"])
    colours = COLOURS if judged.limited else {"value": COLOURS["value"]}
    encoding = {
        "x": _X,
        "y": number("y", title, charts.CLOSE),
        "color": charts.colour("series", colours, offset=18),
        "tooltip": [_TIP, words("series"), tip("y", ".2f", title)],
    }
    look: Any = {"strokeWidth": 2, "point": {"size": 22, "filled": True}}
    lines = [layer("line", encoding, "datum.series == 'value'", **look)]
    if judged.limited:
        look = {"strokeWidth": 1.6, "strokeDash": [6, 4]}
        lines.append(layer("line", encoding, "datum.series == 'limit'", **look))
    return drawing(rows, f"{title}, around the opening", HEIGHT_PX, *lines, *_marks(cleared_s))


def signal(frame: pd.DataFrame, name: str, cleared_s: float | None) -> Drawing:
    """One signal as the vehicle sent it; a slow one, one value a frame, holds until the next.

    Its axis is not closer than a share of the values: noise is no event, one value no axis.
    """
    slow, title = BY_NAME[name].rate == "slow", evidence.label(name)
    least, most = frame["value"].min(), frame["value"].max()
    middle, half = (least + most) / 2, LEAST_SHARE / 2 * max(abs(least), abs(most)) or 0.5
    near = (
        {"domain": [middle - half, middle + half]} if most - least < 2 * half else {}
    )  # not of missing values
    y = number("value", evidence.unit(name), {"zero": False} | near)
    look: Any = {"strokeWidth": 1.6, "color": SERIES[0], "point": slow}
    look["interpolate"] = "step-after" if slow else "linear"
    line = layer("line", {"x": _X, "y": y, "tooltip": [_TIP, tip("value", ".2f", title)]}, **look)
    return drawing(frame[["s", "value"]], f"{title}, around the opening", SMALL_PX, line, *_marks(cleared_s))


def _marks(cleared_s: float | None) -> list[Spec]:
    """Where the alert opened, and where it ended if that is near."""
    marks = {"opened": 0.0}
    if cleared_s is not None and cleared_s <= evidence.AROUND_S:
        marks["cleared"] = cleared_s
    return charts.upright(marks, "s")


def by_day(counted: pd.DataFrame, days: Sequence[date]) -> Drawing:
    """Alerts that opened, by day of the reader's zone and the gravest severity of their rule on it."""
    colours = {text.severity(name): colour for name, colour in SEVERITIES.items()}
    named = [list(colours)[int(worst) - 1] for worst in counted["worst"]]
    known = counted.assign(severity=named, day=counted["day"].astype(str))
    rows = known.groupby(["day", "severity"])["alerts"].sum().reset_index()
    axis, span = {"labelAngle": 0, "labelOverlap": True, "grid": False}, [str(day) for day in days]
    day = {"field": "day", "type": "ordinal"}
    encoding = {
        "x": day | {"title": None, "scale": {"domain": span}, "axis": axis},
        "y": number("alerts", "alerts opened"),
        "color": charts.colour("severity", colours, offset=18) | {"sort": list(colours)},
        "tooltip": [day, words("severity"), tip("alerts", ",", "alerts")],
    }
    return drawing(rows, "Alerts opened, by day and severity", HEIGHT_PX, layer("bar", encoding))
