"""Tables of the crash page. No SQL, no streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard import text

VERDICT_SIGNS: Final = {"confirmed": "▲", "suspect": "◆", "unverified": "○", "pothole": "▽"}
VERDICT_COLOURS: Final = {
    "confirmed": "#d6246e",
    "suspect": "#c76a00",
    "unverified": "#6b7a8c",
    "pothole": "#12937e",
}
BAGS: Final = {True: "deployed", False: "not deployed"}

Row = Mapping[str, Any]


def verdict(word: str) -> str:
    """A verdict as sign and word, so that colour is not alone."""
    return f"{VERDICT_SIGNS.get(word, '?')} {word}"


def tint(shown: object) -> str:
    """The style of a verdict's cell."""
    colour = VERDICT_COLOURS.get(str(shown).rpartition(" ")[2])
    return f"color: {colour}; font-weight: 600" if colour else ""


def records(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """A row a record, the newest first."""
    rows = frame.to_dict("records")
    return pd.DataFrame(
        {
            "Verdict": [verdict(str(row["verdict"])) for row in rows],
            "Time zero": [text.clock(row["event_time"], zone, now.to_pydatetime()) for row in rows],
            "Vehicle": frame["vehicle_id"],
            "Delta-V, km/h": frame["delta_v_max_kmh"].astype(float),
            "Air bag": [BAGS.get(row["airbag_deployed"], text.NONE) for row in rows],
            "Seal": ["matches" if row["hash_ok"] else "BROKEN" for row in rows],
            "Whole": [whole(row["defects"]) for row in rows],
            "Locked": [text.NONE if text.missing(row["locked_at"]) else "locked" for row in rows],
            "Record": frame["crash_id"],
            "Profile": frame["profile"],
        }
    )


def whole(defects: Any) -> str:
    """How many defects, in words; ``defects`` is their number or null."""
    if text.missing(defects):
        return "not checked"
    return "whole" if defects == 0 else f"{int(defects)} defects"


def integrity(found: Row, zone: ZoneInfo) -> pd.DataFrame:
    """What speaks for the record being what the vehicle sent, line by line, each with its proof."""
    defects = None if found["defects"] is None else len(found["defects"])
    lock = "open" if found["locked_at"] is None else f"locked by {found['locked_by']}"
    lines = [
        (
            "Seal",
            "matches" if found["hash_ok"] else "DOES NOT MATCH",
            "SHA-256 that the recorder wrote inside",
        ),
        (
            "Bytes",
            "kept as received" if found["raw_kept"] else "not kept",
            "else written again from the database",
        ),
        ("Since receipt", _unchanged(found), f"SHA-256 now {str(found['digest'])[:16]}…"),
        ("Whole and plausible", whole(defects), "tables I and II of 49 CFR 563.7, ranges of 563.8"),
        ("Complete", "yes" if found["complete"] else "no", "as the recorder says"),
        ("Lock", lock, _locked(found, zone)),
    ]
    return pd.DataFrame(lines, columns=["What", "Is", "By"])


def _unchanged(found: Row) -> str:
    if found["noted_digest"] is None:
        return "NOT IN THE CUSTODY LOG"
    return "unchanged" if found["unchanged"] else "CHANGED, and the log does not say so"


def _locked(found: Row, zone: ZoneInfo) -> str:
    if found["locked_at"] is None:
        return "it may still be retired"
    return f"since {text.clock(found['locked_at'], zone)}: {found['locked_why']}"


def defects(found: Row) -> pd.DataFrame:
    """What is missing, of the wrong shape or implausible."""
    rows = [(d["element"], d["fault"], d["detail"]) for d in found["defects"] or []]
    return pd.DataFrame(rows, columns=["Element", "Fault", "Detail"])


def custody(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """What was done with it, by whom, and whether each entry of the log holds."""
    return pd.DataFrame(
        {
            "Entry": frame["entry"],
            "When": [text.clock(v, zone, now.to_pydatetime()) for v in frame["at"]],
            "What": frame["action"],
            "By": frame["actor"],
            "Chain": frame["holds"].map({True: "holds", False: "BROKEN"}),
            "SHA-256": frame["digest"],
            "In whose words": frame["detail"],
        }
    )


def pre_crash(frame: pd.DataFrame) -> pd.DataFrame:
    """The samples before time zero in seconds, as recorded."""
    flags = {True: "on", False: "off"}
    return pd.DataFrame(
        {
            "s": frame["t_ms"].astype(float) / 1000,
            "Speed, km/h": frame["speed_kmh"].astype(float),
            "Accelerator, %": frame["accelerator_pct"].astype(float),
            "Brake": frame["brake_on"].map(flags),
            "Engine, rpm": frame["engine_rpm"].astype(float),
            "Steering, °": frame["steering_deg"].astype(float),
            "ABS": frame["abs_active"].map(flags),
            "ESC": frame["esc_active"].map(flags),
        }
    )
