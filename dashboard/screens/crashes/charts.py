"""Charts and tables of crash records. Time zero is 0; before it s, after it ms. No SQL, no streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

import altair as alt
import pandas as pd

from dashboard.shared import text
from dashboard.shared.charts import number_axis, tip, top_legend, upright
from dashboard.shared.text import Columns, clock
from dashboard.shared.theme import LIMIT, SERIES

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
FLAGS: Final = {
    "brake_on": ("brake", SERIES[1]),
    "abs_active": ("ABS", SERIES[2]),
    "esc_active": ("ESC", SERIES[3]),
}


def delta_v(frame: pd.DataFrame, marks: Mapping[str, Any]) -> alt.LayerChart:
    """Cumulative change of velocity, km/h over ms; upright lines at ``marks``, ms by word."""
    long = frame.rename(columns=AXES).melt("t_ms", list(AXES.values()), "axis", "kmh").dropna(subset=["kmh"])
    there = [name for name in AXES.values() if name in set(long["axis"])]
    colours = alt.Scale(domain=there, range=list(SERIES[: len(there)]))
    dashes = alt.Scale(domain=there, range=[[1, 0], [6, 3]][: len(there)])
    chart = alt.Chart(long.astype({"t_ms": float, "kmh": float})).mark_line(
        strokeWidth=2, point=alt.OverlayMarkDef(size=18, filled=True)
    )
    lines: Any = chart.encode(
        x=alt.X("t_ms:Q", title="ms after time zero", axis=number_axis(grid=False)),
        y=alt.Y("kmh:Q", title="delta-V, km/h", axis=number_axis()),
        color=alt.Color("axis:N", scale=colours, legend=top_legend(18)),
        strokeDash=alt.StrokeDash("axis:N", scale=dashes, legend=None),
        tooltip=[alt.Tooltip("t_ms:Q", title="ms"), "axis:N", tip("kmh", ".1f", "km/h")],
    )
    known = [(name, float(at)) for name, at in marks.items() if at is not None]
    if known:
        lines = lines + upright(pd.DataFrame(known, columns=["mark", "t_ms"]), "t_ms", LIMIT)
    drawn: alt.LayerChart = lines.properties(height=HEIGHT_PX)
    return drawn


def panels(frame: pd.DataFrame) -> list[tuple[str, alt.LayerChart]]:
    """A chart for each quantity recorded, with its title; flags that were on are bands in the first."""
    seconds = frame.assign(s=frame["t_ms"].astype(float) / 1000)
    there = [name for name in PANELS if seconds[name].notna().any()]
    return [(PANELS[name], _panel(seconds, name, flags=place == 0)) for place, name in enumerate(there)]


def _panel(frame: pd.DataFrame, name: str, flags: bool) -> alt.LayerChart:
    span = alt.Scale(domain=[float(frame["s"].min()), 0.0], nice=False)
    x = alt.X("s:Q", title="s before time zero", scale=span, axis=number_axis(grid=False))
    unit, scale = PANELS[name].rpartition(", ")[2], alt.Scale(zero=name != "steering_deg")
    chart = alt.Chart(frame.astype({name: float})[["s", name]]).mark_line(strokeWidth=1.8, color=SERIES[0])
    line: Any = chart.encode(
        x=x,
        y=alt.Y(f"{name}:Q", title=unit, scale=scale, axis=number_axis()),
        tooltip=[alt.Tooltip("s:Q", format=".1f"), tip(name, ".1f", PANELS[name])],
    )
    drawn: Any = alt.layer(*(_flags(frame, x) if flags else []), line)
    sized: alt.LayerChart = drawn.properties(height=PANEL_PX + (WITH_FLAGS_PX if flags else 0))
    return sized


def _flags(frame: pd.DataFrame, x: alt.X) -> list[alt.Chart]:
    """While a flag was on: a band at the bottom, a row a flag, named in the legend."""
    step = float(frame["s"].diff().median())
    on = {name: frame.loc[frame[name] == True, ["s"]] for name in FLAGS}  # noqa: E712  nulls are not on
    there = [name for name in FLAGS if len(on[name])]
    words, colours = [FLAGS[name][0] for name in there], [FLAGS[name][1] for name in there]
    colour = alt.Color("flag:N", scale=alt.Scale(domain=words, range=colours), legend=top_legend(18))
    return [
        _band(on[name].assign(until=on[name]["s"] + step, flag=word), place, x, colour)
        for place, (name, word) in enumerate(zip(there, words, strict=True))
    ]


def _band(on: pd.DataFrame, place: int, x: alt.X, colour: alt.Color) -> alt.Chart:
    """One row of bands, in pixels from the bottom: it has no share in the chart's scale."""
    top = PANEL_PX + WITH_FLAGS_PX - 2 - (place + 1) * BAND_PX
    chart: alt.Chart = alt.Chart(on).mark_rect(clip=True)
    banded: alt.Chart = chart.encode(
        x=x,
        x2="until:Q",
        y=alt.value(top),
        y2=alt.value(top + BAND_PX - 3),
        color=colour,
        tooltip=["flag:N", alt.Tooltip("s:Q", format=".1f")],
    )
    return banded


VERDICT_SIGNS: Final = {"confirmed": "▲", "suspect": "◆", "unverified": "○", "pothole": "▽"}
VERDICT_COLOURS: Final = {
    "confirmed": "#d6246e",
    "suspect": "#c76a00",
    "unverified": "#6b7a8c",
    "pothole": "#12937e",
}
BAGS: Final = {True: "deployed", False: "not deployed"}
ON: Final = {True: "on", False: "off"}

Row = Mapping[str, Any]


def verdict(word: str) -> str:
    """A verdict as sign and word, so that colour is not alone."""
    return f"{VERDICT_SIGNS.get(word, '?')} {word}"


def whole(defects: Any) -> str:
    """How many defects, in words; ``defects`` is their number or null."""
    if text.missing(defects):
        return "not checked"
    return "whole" if defects == 0 else f"{int(defects)} defects"


RECORDS: Final[Columns] = {
    "Verdict": ("verdict", verdict),
    "Time zero": ("event_time", clock),
    "Vehicle": "vehicle_id",
    "Delta-V, km/h": ("delta_v_max_kmh", float),
    "Air bag": ("airbag_deployed", lambda fired: BAGS.get(fired, text.NONE)),
    "Seal": ("hash_ok", lambda ok: "matches" if ok else "BROKEN"),
    "Whole": ("defects", whole),
    "Locked": ("locked_at", lambda at: text.NONE if text.missing(at) else "locked"),
    "Record": "crash_id",
    "Profile": "profile",
}
"""A row a record, the newest first."""


def integrity(found: Row, zone: ZoneInfo) -> pd.DataFrame:
    """What speaks for the record being what the vehicle sent, line by line, each with its proof."""
    defects = None if found["defects"] is None else len(found["defects"])
    unchanged = "unchanged" if found["unchanged"] else "CHANGED, and the log does not say so"
    lock, why = "open", "it may still be retired"
    if found["locked_at"] is not None:
        lock = f"locked by {found['locked_by']}"
        why = f"since {text.clock(found['locked_at'], zone)}: {found['locked_why']}"
    seal = "matches" if found["hash_ok"] else "DOES NOT MATCH"
    kept = "kept as received" if found["raw_kept"] else "not kept"
    since = "NOT IN THE CUSTODY LOG" if found["noted_digest"] is None else unchanged
    lines = [
        ("Seal", seal, "SHA-256 that the recorder wrote inside"),
        ("Bytes", kept, "else written again from the database"),
        ("Since receipt", since, f"SHA-256 now {str(found['digest'])[:16]}…"),
        ("Whole and plausible", whole(defects), "tables I and II of 49 CFR 563.7, ranges of 563.8"),
        ("Complete", "yes" if found["complete"] else "no", "as the recorder says"),
        ("Lock", lock, why),
    ]
    return pd.DataFrame(lines, columns=["What", "Is", "By"])


def defects(found: Row) -> pd.DataFrame:
    """What is missing, of the wrong shape or implausible."""
    rows = [(d["element"], d["fault"], d["detail"]) for d in found["defects"] or []]
    return pd.DataFrame(rows, columns=["Element", "Fault", "Detail"])


CUSTODY: Final[Columns] = {
    "Entry": "entry",
    "When": ("at", clock),
    "What": "action",
    "By": "actor",
    "Chain": ("holds", {True: "holds", False: "BROKEN"}.get),
    "SHA-256": "digest",
    "In whose words": "detail",
}
"""What was done with a record, by whom, and whether each entry of the log holds."""


PRE_CRASH: Final[Columns] = {
    "s": ("t_ms", lambda ms: float(ms) / 1000),
    "Speed, km/h": ("speed_kmh", float),
    "Accelerator, %": ("accelerator_pct", float),
    "Brake": ("brake_on", ON.get),
    "Engine, rpm": ("engine_rpm", float),
    "Steering, °": ("steering_deg", float),
    "ABS": ("abs_active", ON.get),
    "ESC": ("esc_active", ON.get),
}
"""The samples before time zero, as recorded."""
