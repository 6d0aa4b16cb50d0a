"""The rows behind a list or chart as a file, CSV or Parquet, made when somebody asks for it.

A page puts two links below what it shows. The rows stay with the reader's session; the server's route finds
them by the session's token and the key of the list, so a link always gives what its page shows last.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from html import escape
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

import orjson
import pandas as pd
import streamlit as st

from dashboard.query_cache import VIEWED, scope
from dashboard.shared import tracks
from dashboard.shared.charts import Drawing, Spec

Rows = pd.DataFrame | Callable[[], pd.DataFrame]  # or what asks for them: more than the page lists

PATH: Final = "/data"
ROWS_MOST: Final = 100_000  # of a list that is asked for beyond what its page shows
KEPT_MOST: Final = 64  # lists and charts of a session, the newest
EVIDENCE: Final = ("delta_v", "pre_")  # what crash records hold leaves as a bundle only, by a legal basis
TABLE: Final = ("CSV", "Parquet")
SHOWN: Final = "data_shown"
NAMELESS: Final = ("value", "y")  # columns of charts whose unit stands at the axis
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a spreadsheet may take for one, at the begin


class Shown:
    """What a session shows, by the key of its list or chart; ``vehicle``: the one its page is about."""

    def __init__(self) -> None:
        self.token, self.scope = uuid.uuid4().hex, scope()
        self.vehicle: str | None = None
        self.rows: dict[str, Rows] = {}

    def put(self, key: str, rows: Rows) -> None:
        """Keep the rows until others of the key are shown, or many others."""
        self.rows.pop(key, None)
        self.rows[key] = rows
        if len(self.rows) > KEPT_MOST:
            del self.rows[next(iter(self.rows))]

    def vehicle_of(self, rows: pd.DataFrame) -> str | None:
        """The vehicle that rows are of, by their column, else by the page; None: several, or none."""
        if "vehicle_id" not in rows:
            return self.vehicle
        named = rows["vehicle_id"].unique()
        return str(named[0]) if len(named) == 1 and pd.notna(named[0]) else None


@st.cache_resource(show_spinner=False)
def sessions() -> "WeakValueDictionary[str, Shown]":
    """What sessions show, by token, as long as they live."""
    return WeakValueDictionary()


def links(key: str, title: str, rows: Rows, forms: Sequence[str] = TABLE) -> str:
    """The links to the rows as files, as HTML; ``title`` is for who cannot see where they stand."""
    if key.startswith(EVIDENCE):
        return "As a file: in the bundle"
    kept: Shown = st.session_state.setdefault(SHOWN, Shown())
    sessions()[kept.token] = kept
    kept.vehicle = st.session_state.get(VIEWED)
    kept.put(key, rows)
    made = []
    for form in forms:
        address = f"{PATH}?{urlencode({'of': kept.token, 'key': key, 'as': form})}"
        words = f'title="{escape(f"{title}: all rows as {form}")}"'
        made.append(f'<a class="data" href="{escape(address)}" download {words}>{form}</a>')
    return " · ".join(made)


def of_chart(drawing: Drawing, zone: ZoneInfo) -> pd.DataFrame:
    """A chart's rows: wall-clock times of ``zone`` in UTC, and units of axes in the columns' names.

    An hour that the clocks repeat is its first, until the times go back.
    """
    rows = drawing.rows.copy()
    for name in rows.select_dtypes("datetime"):
        first = ~(rows[name].diff() < pd.Timedelta(0)).cummax()
        there = rows[name].dt.tz_localize(zone, ambiguous=first.to_numpy(), nonexistent="shift_forward")
        rows[name] = there.dt.tz_convert("UTC")
    return rows.rename(columns=_units(drawing.spec))


def _units(spec: Spec) -> dict[str, str]:
    folded = [name for step in spec.get("transform", ()) for name in step.get("fold", ())]
    found: dict[str, str] = {}
    for layer in spec.get("layer", [spec]):
        y = layer["encoding"].get("y", {})
        if y.get("title") and y.get("field") in NAMELESS:
            found |= {name: f"{name} ({y['title']})" for name in (y["field"], *folded)}
    return found


def to_csv(frame: pd.DataFrame) -> bytes:
    """Times as ISO 8601 in UTC; an apostrophe before words that a spreadsheet would take for a formula."""
    flat = _flat(frame)
    for name in flat.select_dtypes("datetimetz"):
        flat[name] = flat[name].dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for name in flat.select_dtypes("object"):
        flat[name] = flat[name].map(_defused)
    return flat.rename(columns=_defused).to_csv(index=False).encode()


def _defused(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def to_parquet(frame: pd.DataFrame) -> bytes:
    """The rows with their types; a column of several types is text."""
    flat = _flat(frame)
    for name in flat.select_dtypes("object"):
        if flat[name].dropna().map(type).nunique() > 1:
            flat[name] = flat[name].map(str, na_action="ignore")
    return flat.to_parquet(index=False)


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of numbers, words and UTC times: spans in s, and JSON for what has parts."""
    made: dict[str, pd.Series[Any]] = {}
    for name, column in frame.items():
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            made[str(name)] = column.dt.tz_convert("UTC")
        elif column.dtype.kind == "m":
            made[f"{name}_s"] = column.dt.total_seconds()
        else:
            made[str(name)] = column.map(_cell, na_action="ignore") if column.dtype == object else column
    return pd.DataFrame(made)


def _cell(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, str | bool | int | float | date):
        return value
    return orjson.dumps(value, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()


FORMS: Final[Mapping[str, tuple[str, Callable[[pd.DataFrame], bytes]]]] = {
    "CSV": ("text/csv; charset=utf-8", to_csv),
    "Parquet": ("application/vnd.apache.parquet", to_parquet),
    "GPX": ("application/gpx+xml", tracks.to_gpx),
    "GeoJSON": ("application/geo+json", tracks.to_geojson),
}
"""Name -> media type and what makes it; the last two of the rows of a track."""
