"""Charts as Vega-Lite: frame in, drawing out. No SQL, no streamlit.

Times arrive as wall-clock times of the reader's zone without a zone (see ``text.local``). A line breaks where
data is missing; nothing is drawn as 0 that was not measured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from dashboard.shared.theme import LIMIT, SERIES

Spec = dict[str, Any]
Window = tuple[pd.Timestamp, pd.Timestamp]

HEIGHT_PX: Final = 190
LEGEND_PX: Final = 26
ZERO: Final = {"zero": True, "nice": True}
CLOSE: Final = {"zero": False, "nice": True}  # scales: from 0, or around the values


@dataclass(frozen=True, slots=True)
class Drawing:
    """Rows, how they are drawn (Vega-Lite without rows), and the text for who cannot see it."""

    rows: pd.DataFrame
    spec: Spec
    alt: str


def drawing(rows: pd.DataFrame, alt: str, height_px: Any, *layers: Spec, fold: Iterable[str] = ()) -> Drawing:
    """Layers over the same rows; ``fold``: columns that the browser makes ``series`` and ``value`` of."""
    spec = {"layer": list(layers)} if len(layers) > 1 else layers[0]
    folded = {"transform": [{"fold": list(fold), "as": ["series", "value"]}]} if fold else {}
    return Drawing(rows, {"height": height_px} | folded | spec, alt)


def layer(mark: str, encoding: Spec, where: str = "", **look: Any) -> Spec:
    """One kind of mark; ``where``: only for the rows of this condition over ``datum``."""
    spec = {"mark": {"type": mark} | look, "encoding": encoding}
    return spec | {"transform": [{"filter": where}]} if where else spec


def number(name: str, title: str, scale: Spec = ZERO, **axis: Any) -> Spec:
    """A quantity on an axis with few ticks."""
    few = {"grid": True, "tickCount": 5, "labelFlush": False}
    return {"field": name, "type": "quantitative", "title": title, "scale": scale, "axis": few | axis}


def moments(window: Window | None = None, form: str = "%H:%M", ticks: int = 6) -> Spec:
    """The column ``time``, from end to end of ``window``."""
    axis = {"title": None, "grid": False, "labelOverlap": True, "tickCount": ticks, "format": form}
    spanned = {"domain": [end.isoformat() for end in window], "nice": False} if window else {}
    return {"field": "time", "type": "temporal", "scale": spanned, "axis": axis}


def words(name: str, **more: Any) -> Spec:
    """A column of words in their own order."""
    return {"field": name, "type": "nominal"} | more


def colour(
    name: str, colours: Mapping[str, str], legend: bool = True, offset: int = 5, sign: str = "stroke"
) -> Spec:
    """Colour by word, named above the chart, ``offset`` px from it: more where words stand between.

    ``sign``: of a word there; marks that are filled have no stroke.
    """
    scale = {"domain": list(colours), "range": list(colours.values())}
    named = {"title": None, "orient": "top", "direction": "horizontal", "offset": offset, "padding": 0}
    return words(name, scale=scale, legend=named | {"symbolType": sign} if legend else None)


def tip(name: str, form: str, title: str) -> Spec:
    """A number of the tooltip; ``form`` may be empty."""
    return {"field": name, "type": "quantitative", "title": title} | ({"format": form} if form else {})


def tip_time() -> Spec:
    """The moment in the tooltip."""
    return {"field": "time", "type": "temporal", "format": "%Y-%m-%d %H:%M:%S", "title": "time"}


def upright(marks: Mapping[str, float], name: str) -> list[Spec]:
    """Upright lines across the plot at places of the axis ``name``, each with its word beside."""
    if not marks:
        return []
    rows = {"data": {"values": [{"mark": mark, name: at} for mark, at in marks.items()]}}
    x = {"field": name, "type": "quantitative"}
    look: Any = {"align": "left", "dx": -2, "dy": -4, "baseline": "bottom", "color": LIMIT}
    return [
        rows | layer("rule", {"x": x}, color=LIMIT, strokeWidth=1.3),
        rows | layer("text", {"x": x, "y": {"value": 0}, "text": words("mark")}, **look),
    ]


def level(name: str, at: float, **look: Any) -> Spec:
    """A line across the plot at a height of the axis ``name``."""
    y = {"field": name, "type": "quantitative"}
    return {"data": {"values": [{name: at}]}} | layer("rule", {"y": y}, color=LIMIT, **look)


def trend(frame: pd.DataFrame, time: str, column: str, unit: str) -> Drawing:
    """One measure over time as a line over a faint area."""
    rows = frame[[time, column]].set_axis(["time", "value"], axis=1)
    few = len(rows) < 3  # a line needs two points to be seen: show those there are
    tips = [tip_time(), tip("value", ",.1f", unit)]
    encoding = {"x": moments(), "y": number("value", unit), "tooltip": tips}
    area = layer("area", encoding, color=SERIES[0], opacity=0.12)
    line = layer("line", encoding, color=SERIES[0], strokeWidth=1.7, point=few)
    return drawing(rows, f"{unit} over time", HEIGHT_PX, area, line)


def by_query(frame: pd.DataFrame, time: str, column: str, unit: str) -> Drawing:
    """One measure of each streaming query over time."""
    rows = frame[["query", time, column]].set_axis(["query", "time", "value"], axis=1)
    # one unit high at least, or all zeros would lie on an axis without numbers
    scale = {"domainMin": 0, "nice": True} | ({} if rows["value"].max() > 1 else {"domainMax": 1})
    encoding = {
        "x": moments(),
        "y": number("value", unit, scale, format=",.0f", tickMinStep=1),
        "color": colour("query", dict(zip(sorted(rows["query"].unique()), SERIES, strict=False))),
        "tooltip": [tip_time(), words("query"), tip("value", ",.0f", unit)],
    }
    line = layer("line", encoding, strokeWidth=1.7)
    return drawing(rows, f"{unit} of each streaming query over time", HEIGHT_PX + LEGEND_PX, line)
