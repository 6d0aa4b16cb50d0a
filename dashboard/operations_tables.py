"""Tables of the page Operations: frames turned into columns as people read them. No SQL, no streamlit."""

from __future__ import annotations

from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard import stages, text

DAY_S: Final = 86_400
FULL_DAYS_MOST: Final = 3650
"""A disk that would be full later is not said to be."""
GROWTH_LEAST_S: Final = 6 * 3600
"""What grew for less tells of a start, not of days."""


def off_time(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Late and quarantined frames by vehicle."""
    unset = frame["unset"].map(lambda never: not text.missing(never) and bool(never))
    return pd.DataFrame(
        {
            "Vehicle": frame["vehicle_id"],
            "Late": frame["late"],
            "Not repaired": frame["late_open"],
            "Latest by": frame["late_worst_s"].map(text.duration),
            "Quarantined": frame["quarantined"],
            "Clock": [clock(ahead, never) for ahead, never in zip(frame["ahead_s"], unset, strict=True)],
            "Last": [text.clock(v, zone, now.to_pydatetime()) for v in frame["last_at"]],
        }
    )


def clock(ahead_s: Any, unset: bool) -> str:
    """What is wrong with a vehicle's clock, in words."""
    told = [] if text.missing(ahead_s) else [f"{long(ahead_s)} ahead"]
    return ", ".join([*told, *(["never set"] if unset else [])]) or text.NONE


def long(seconds: Any) -> str:
    """A duration; in years from two years on."""
    years = float(seconds) / DAY_S / 365.25
    return f"{years:.1f} years" if years >= 2 else text.duration(seconds)


def ahead(frame: pd.DataFrame) -> pd.DataFrame:
    """Vehicles that push the watermark within the limit."""
    return pd.DataFrame({"Vehicle": frame["vehicle_id"], "Ahead, s": frame["ahead_s"].astype(float)})


def tasks(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Periodic tasks of maintenance and of the stream jobs."""
    failing = frame["failing_since"].notna()
    state = failing.map({True: stages.WRONG, False: stages.WORKS}).mask(
        frame["run_at"].isna(), stages.UNKNOWN
    )
    return pd.DataFrame(
        {
            "Task": frame["task"],
            "Process": frame["process"],
            "State": state.map(stages.signed),
            "Last run": [text.clock(at, zone, now.to_pydatetime()) for at in frame["run_at"]],
            "Duration, s": frame["run_s"].astype(float),
            "Every": frame["interval_s"].map(text.duration),
            "Failures": frame["failures"],
            "Failing since": [text.clock(at, zone, now.to_pydatetime()) for at in frame["failing_since"]],
            "Error": frame["error"].fillna(text.NONE),
        }
    )


def defence(told: dict[str, Any], lateness_s: float) -> str:
    """What the delay in force saves, and what would have saved 99.9 %, in a sentence."""
    frames, late = told["frames"], told["late"]
    if not frames:
        return "No frame was read within a day, so nothing can be said of the delay."
    share = 100 * (1 - late / max(frames, late))
    have = f"{share:.3f} % of {frames:,} frames came within the delay in force, {lateness_s:g} s."
    if told["needed_s"] is None:
        return f"{have} That is 99.9 % or more: no longer delay is needed."
    return f"{have} A delay of {long(told['needed_s'])} would have saved 99.9 %."


def pushed(told: dict[str, Any]) -> str:
    """What the clocks in quarantine would have done to the watermark, in a sentence."""
    if not told["quarantined"]:
        return "No clock was impossible."
    if told["ahead_worst_s"] is None:
        return f"{told['quarantined']:,} frames with a clock that was never set were kept from the watermark."
    return (
        f"Without the quarantine the watermark would stand {long(told['ahead_worst_s'])} ahead, and every"
        f" honest frame since would be late ({told['quarantined']:,} frames were kept from it)."
    )


def folders(frame: pd.DataFrame) -> pd.DataFrame:
    """What lies on the disk."""
    growth = grown(frame)
    return pd.DataFrame(
        {
            "Folder": frame["place"],
            "MiB": frame["bytes"].astype(float) / 2**20,
            "MiB a day": growth / 2**20,
        }
    )


def grown(frame: pd.DataFrame) -> pd.Series[float]:
    """Growth, bytes a day; missing where it was not watched for long enough."""
    long_enough = frame["grown_over_s"].astype(float) >= GROWTH_LEAST_S
    return frame["growth_per_day"].astype(float).where(long_enough)


def room(frame: pd.DataFrame) -> str:
    """What the disk has left, and for how long at the growth of the last day."""
    free = frame["free_bytes"].dropna()
    if free.empty:
        return "What the disk has left is not known."
    left = float(free.iloc[0])
    growth = grown(frame)
    if growth.isna().all():
        return f"{left / 2**30:,.1f} GiB free on the disk; its growth is told after six hours."
    grows = float(growth.clip(lower=0).sum())
    days = left / grows if grows else float("inf")
    lasts = f", full in {days:.0f} days at the growth of the last day" if days < FULL_DAYS_MOST else ""
    return f"{left / 2**30:,.1f} GiB free on the disk{lasts}."


def sizes(frame: pd.DataFrame) -> pd.DataFrame:
    """The biggest tables."""
    return pd.DataFrame(
        {
            "Table": frame["schema"] + "." + frame["name"],
            "MiB": frame["bytes"].astype(float) / 2**20,
            "Rows, about": frame["about_rows"],
            "Oldest chunk": [text.NONE if text.missing(v) else f"{v:%Y-%m-%d}" for v in frame["since"]],
            "Kept": ["for ever" if text.missing(d) else f"{d:.0f} days" for d in frame["kept_days"]],
        }
    )
