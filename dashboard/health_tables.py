"""Tables of a vehicle's health, trips, codes and data quality. No SQL."""

from __future__ import annotations

from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd
from pandas.io.formats.style import Styler

from dashboard import text
from dashboard.health_charts import urgency
from dashboard.palette import SEVERITIES
from dashboard.tables import severity

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
TREND_CONFIG: Final[dict[str, Any]] = {}


def name(metric: str) -> str:
    """A metric as people call it."""
    return NAMES.get(metric, metric)


def days(value: Any) -> str:
    """Days to a threshold in words."""
    if text.missing(value):
        return "not heading there"
    if value <= 0:
        return "beyond its threshold"
    return f"threshold in {text.duration(86_400 * value)}"


def trends(frame: pd.DataFrame, zone: ZoneInfo) -> pd.DataFrame:
    """Where slow quantities are heading."""
    signs = {"up": "▲", "down": "▼"}
    return pd.DataFrame(
        {
            "Signal": frame["metric"].map(name),
            "Threshold": frame["days_to_threshold"].map(days),
            "Now": [text.number(v, u, 1) for v, u in zip(frame["value"], frame["unit"], strict=True)],
            "A day": [f"{v:+.2f} {u}" for v, u in zip(frame["slope_per_day"], frame["unit"], strict=True)],
            "90 % sure": [
                f"{low:+.2f} to {high:+.2f}"
                for low, high in zip(frame["slope_low_per_day"], frame["slope_high_per_day"], strict=True)
            ],
            "Limit": [
                f"{signs[side]} {text.number(v, u, 1)}"
                for side, v, u in zip(frame["heads"], frame["threshold"], frame["unit"], strict=True)
            ],
            "Met on": [
                text.NONE if text.missing(at) else f"{pd.Timestamp(at).tz_convert(zone):%Y-%m-%d %H:%M}"
                for at in frame["threshold_at"]
            ],
            "Hours": frame["points"],
            "Over": [text.duration(86_400 * d) for d in frame["span_days"]],
            "days": frame["days_to_threshold"].astype(float),
        }
    )


def tinted(table: pd.DataFrame) -> Styler:
    """The trends with the near ones in colour; the words say the same."""
    urgent = table["days"].map(urgency)
    shown = table.drop(columns="days")
    colours = [f"color: {SEVERITIES[u]}; font-weight: 600" if u else "" for u in urgent]
    return shown.style.apply(lambda column: colours if column.name == "Threshold" else [""] * len(column))


def trips(frame: pd.DataFrame, zone: ZoneInfo) -> pd.DataFrame:
    """Trips, the newest first."""
    return pd.DataFrame(
        {
            "Began": [f"{pd.Timestamp(t).tz_convert(zone):%Y-%m-%d %H:%M}" for t in frame["started_at"]],
            "Took": frame["duration_s"].map(text.duration),
            "km": frame["distance_m"].astype(float) / 1000,
            "Mean km/h": frame["speed_mean_kmh"].astype(float),
            "Top km/h": frame["speed_max_kmh"].astype(float),
            "Idling": frame["idle_s"].map(text.duration),
            "l/100 km": frame["fuel_l_per_100km"].astype(float),
            "kWh/100 km": frame["energy_kwh_per_100km"].astype(float),
            "Harsh": frame["harsh"],
            "State": frame["phase"].map(
                {"open": "under way", "provisional": "over, it seems", "final": "over"}
            ),
        }
    )


def codes(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Trouble codes as alerts told of them."""
    moment = now.to_pydatetime()
    return pd.DataFrame(
        {
            "Code": frame["code"].fillna(text.NONE),
            "What": frame["rule"].map({"dtc_active": "set", "dtc_intermittent": "comes and goes"}),
            "Severity": frame["severity"].map(severity),
            "Status": frame["active"].map({True: "active", False: "cleared"}),
            "First": [text.clock(t, zone, moment) for t in frame["opened_at"]],
            "Last": [text.clock(t, zone, moment) for t in frame["last_at"]],
            "Seen": frame["findings"],
        }
    )
