"""Charts and tables of crash records. Time zero is 0; before it s, after it ms. No SQL, no streamlit."""

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard.shared import charts, text
from dashboard.shared.charts import Drawing, Spec, drawing, layer, number, tip, words
from dashboard.shared.text import NONE, WHOLE, Columns, Record, clock
from dashboard.shared.theme import SERIES

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


def delta_v(frame: pd.DataFrame, marks: Mapping[str, Any]) -> Drawing:
    """Cumulative change of velocity, km/h over ms; upright lines at ``marks``, ms by word."""
    long = frame.rename(columns=AXES).melt("t_ms", list(AXES.values()), "axis", "kmh").dropna(subset=["kmh"])
    there = [name for name in AXES.values() if name in set(long["axis"])]
    dashes = {"domain": there, "range": [[1, 0], [6, 3]][: len(there)]}
    encoding = {
        "x": number("t_ms", "ms after time zero", grid=False),
        "y": number("kmh", "delta-V, km/h"),
        "color": charts.colour("axis", dict(zip(there, SERIES, strict=False)), offset=18),
        "strokeDash": words("axis", scale=dashes, legend=None),
        "tooltip": [tip("t_ms", "", "ms"), words("axis"), tip("kmh", ".1f", "km/h")],
    }
    line = layer("line", encoding, strokeWidth=2, point={"size": 18, "filled": True})
    known = charts.upright({name: float(at) for name, at in marks.items() if at is not None}, "t_ms")
    rows = long.astype({"t_ms": float, "kmh": float})
    return drawing(rows, "Change of velocity, km/h, after time zero", 300, line, *known)


def panels(frame: pd.DataFrame) -> list[tuple[str, Drawing]]:
    """A chart for each quantity recorded, with its title; flags that were on are bands in the first."""
    seconds = frame.assign(s=frame["t_ms"].astype(float) / 1000)
    span = {"domain": [float(seconds["s"].min()), 0.0], "nice": False}
    x = number("s", "s before time zero", span, grid=False)
    bands = _flags(seconds, x)
    drawn: list[tuple[str, Drawing]] = []
    for name in (name for name in PANELS if seconds[name].notna().any()):
        unit, scale = PANELS[name].rpartition(", ")[2], {"zero": name != "steering_deg"}
        tips = [tip("s", ".1f", "s"), tip(name, ".1f", PANELS[name])]
        encoding = {"x": x, "y": number(name, unit, scale), "tooltip": tips}
        line = layer("line", encoding, strokeWidth=1.8, color=SERIES[0])
        rows, alt = seconds[["s", name]].astype(float), f"{PANELS[name]}, before time zero"
        high = PANEL_PX if drawn else PANEL_PX + WITH_FLAGS_PX
        drawn.append((PANELS[name], drawing(rows, alt, high, *([] if drawn else bands), line)))
    return drawn


def _flags(frame: pd.DataFrame, x: Spec) -> list[Spec]:
    """While a flag was on: a band, a row a flag, named in the legend.

    In pixels from the bottom: it has no share in the chart's scale.
    """
    step = float(frame["s"].diff().median()) if len(frame) > 1 else 0.0
    on = {flag: frame.loc[frame[name] == True, "s"] for name, flag in FLAGS.items()}  # noqa: E712  null: not on
    there = {word: colour for (word, colour), times in on.items() if len(times)}
    bands: list[Spec] = []
    for place, flag in enumerate(there.items(), 1):
        top = PANEL_PX + WITH_FLAGS_PX - 2 - place * BAND_PX
        values = [{"s": s, "until": s + step, "flag": flag[0]} for s in on[flag]]
        encoding = {
            "x": x,
            "x2": {"field": "until"},
            "y": {"value": top},
            "y2": {"value": top + BAND_PX - 3},
            "color": charts.colour("flag", there, offset=18, sign="square"),
            "tooltip": [words("flag"), tip("s", ".1f", "s")],
        }
        bands.append({"data": {"values": values}} | layer("rect", encoding, clip=True))
    return bands


VERDICT_SIGNS: Final = {"confirmed": "▲", "suspect": "◆", "unverified": "○", "pothole": "▽"}
BY_VERDICT: Final = (
    "Verdict",
    {"confirmed": "#d6246e", "suspect": "#c76a00", "unverified": "#6b7a8c", "pothole": "#12937e"},
)
BAGS: Final = {True: "deployed", False: "not deployed"}
ON: Final = {True: "on", False: "off"}


def verdict(word: str) -> str:
    """A verdict as sign and word, so that colour is not alone."""
    return f"{VERDICT_SIGNS.get(word, '?')} {word}"


def whole(defects: Any) -> str:
    """How many defects, in words; ``defects`` is their number or null."""
    if text.missing(defects):
        return "not checked"
    return "whole" if defects == 0 else text.counted(int(defects), "defect")


SIGNED: Final = {
    "valid": "by its vehicle",
    "invalid": "FORGED",
    "absent": "unsigned",
    "unchecked": "not checked",
}
RECORDS: Final[Columns] = {  # a row a record, the newest first
    "Verdict": ("verdict", verdict),
    "Time zero": ("event_time", clock),
    "Vehicle": "vehicle_id",
    "Delta-V, km/h": ("delta_v_max_kmh", float, WHOLE),
    "Air bag": ("airbag_deployed", lambda fired: BAGS.get(fired, NONE)),
    "Seal": ("hash_ok", lambda ok: "matches" if ok else "BROKEN"),
    "Signed": ("signature", SIGNED.get),
    "Whole": ("defects", whole),
    "Locked": ("locked_at", lambda at: NONE if text.missing(at) else "locked"),
    "Record": "crash_id",
    "Profile": "profile",
}


def integrity(found: Record, zone: ZoneInfo) -> pd.DataFrame:
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
        ("Signature", SIGNED[found["signature"]], "Ed25519 of the vehicle's key, over its bytes"),
        ("Bytes", kept, "else written again from the database"),
        ("Since receipt", since, f"SHA-256 now {str(found['digest'])[:16]}…"),
        ("Whole and plausible", whole(defects), "tables I and II of 49 CFR 563.7, ranges of 563.8"),
        ("Complete", "yes" if found["complete"] else "no", "as the recorder says"),
        ("Lock", lock, why),
    ]
    return pd.DataFrame(lines, columns=["What", "Is", "By"])


DEFECTS: Final[Columns] = {"Element": "element", "Fault": "fault", "Detail": "detail"}
"""What is missing, of the wrong shape or implausible."""

CUSTODY: Final[Columns] = {  # what was done with a record, by whom, and whether each entry of the log holds
    "Entry": "entry",
    "When": ("at", clock),
    "What": "action",
    "By": "actor",
    "Chain": ("holds", {True: "holds", False: "BROKEN"}.get),
    "SHA-256": "digest",
    "In whose words": "detail",
}

PRE_CRASH: Final[Columns] = {  # the samples before time zero, as recorded
    "s": ("t_ms", text.divided(1000)),
    "Speed, km/h": ("speed_kmh", float),
    "Accelerator, %": ("accelerator_pct", float),
    "Brake": ("brake_on", ON.get),
    "Engine, rpm": ("engine_rpm", float),
    "Steering, °": ("steering_deg", float),
    "ABS": ("abs_active", ON.get),
    "ESC": ("esc_active", ON.get),
}
