"""Tables of one vehicle: trends, alerts, trips, codes. No SQL, no streamlit."""

from __future__ import annotations

from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd
from pandas.io.formats.style import Styler

from dashboard.shared import text
from dashboard.shared.text import Columns, clock, known, messages, severity
from dashboard.shared.theme import SEVERITIES

NAMES: Final = {
    "tyre_fl": "Tyre, front left",
    "tyre_fr": "Tyre, front right",
    "tyre_rl": "Tyre, rear left",
    "tyre_rr": "Tyre, rear right",
    "brake_pad_fl": "Brake pad, front left",
    "brake_pad_fr": "Brake pad, front right",
    "brake_pad_rl": "Brake pad, rear left",
    "brake_pad_rr": "Brake pad, rear right",
    "battery_rest": "12 V at rest",
    "dpf_soot": "Filter soot",
    "cell_spread_rest": "Cells apart at rest",
}
PHASES: Final = {"open": "under way", "provisional": "over, it seems", "final": "over"}


def days(value: Any) -> str:
    """Days to a threshold in words."""
    if text.missing(value):
        return "not heading there"
    return "beyond its threshold" if value <= 0 else f"threshold in {text.duration(86_400 * value)}"


def trends(frame: pd.DataFrame, zone: ZoneInfo) -> pd.DataFrame:
    """Where slow quantities are heading."""
    signs = {"up": "▲", "down": "▼"}
    rows = frame.to_dict("records")
    return pd.DataFrame(
        {
            "Signal": frame["metric"].map(lambda metric: NAMES.get(metric, metric)),
            "Threshold": frame["days_to_threshold"].map(days),
            "Now": [text.number(r["value"], r["unit"], 1) for r in rows],
            "A day": [f"{r['slope_per_day']:+.2f} {r['unit']}" for r in rows],
            "90 % sure": [f"{r['slope_low_per_day']:+.2f} to {r['slope_high_per_day']:+.2f}" for r in rows],
            "Limit": [f"{signs[r['heads']]} {text.number(r['threshold'], r['unit'], 1)}" for r in rows],
            "Met on": [_minute(at, zone) for at in frame["threshold_at"]],
            "Hours": frame["points"],
            "Over": [text.duration(86_400 * d) for d in frame["span_days"]],
            "days": frame["days_to_threshold"].astype(float),
        }
    )


def _minute(at: Any, zone: ZoneInfo) -> str:
    return text.NONE if text.missing(at) else f"{pd.Timestamp(at).tz_convert(zone):%Y-%m-%d %H:%M}"


def tinted(table: pd.DataFrame) -> Styler:
    """The trends with the near ones in colour; the words say the same."""
    _, major, minor, warning = SEVERITIES.values()
    colours = [
        "" if pd.isna(d) else f"color: {major if d <= 0 else minor if d < 7 else warning}; font-weight: 600"
        for d in table["days"]
    ]
    shown = table.drop(columns="days")
    return shown.style.apply(lambda column: colours if column.name == "Threshold" else [""] * len(column))


def alerts(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Its alerts as listed."""
    seen = frame["acknowledged_at"].notna()
    return pd.DataFrame(
        {
            "Severity": frame["severity"].map(severity),
            "Status": [
                ("active, seen" if known else "active, new") if active else "cleared"
                for active, known in zip(frame["active"], seen, strict=True)
            ],
            "Rule": frame["rule"],
            "Message": messages(frame),
            "Since": text.clocks(frame["opened_at"], zone, now),
            "Duration": frame["duration_s"].map(text.duration),
            "Value": frame["value"].astype(float),
            "Worst": frame["worst_value"].astype(float),
            "Limit": frame["limit_value"].astype(float),
            "Findings": frame["findings"],
            "Acknowledged by": frame["acknowledged_by"].fillna(text.NONE),
        }
    )


def trips(frame: pd.DataFrame, zone: ZoneInfo, *_: Any) -> pd.DataFrame:
    """Trips, the newest first."""
    return pd.DataFrame(
        {
            "Began": [_minute(at, zone) for at in frame["started_at"]],
            "Took": frame["duration_s"].map(text.duration),
            "km": frame["distance_m"].astype(float) / 1000,
            "Mean km/h": frame["speed_mean_kmh"].astype(float),
            "Top km/h": frame["speed_max_kmh"].astype(float),
            "Idling": frame["idle_s"].map(text.duration),
            "l/100 km": frame["fuel_l_per_100km"].astype(float),
            "kWh/100 km": frame["energy_kwh_per_100km"].astype(float),
            "Harsh": frame["harsh"],
            "State": frame["phase"].map(PHASES),
        }
    )


CODES: Final[Columns] = {
    "Code": ("code", known),
    "What": ("rule", {"dtc_active": "set", "dtc_intermittent": "comes and goes"}.get),
    "Severity": ("severity", severity),
    "Status": ("active", {True: "active", False: "cleared"}.get),
    "First": ("opened_at", clock),
    "Last": ("last_at", clock),
    "Seen": "findings",
}
"""Trouble codes of alerts."""
