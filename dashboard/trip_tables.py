"""Tables of trips and of what happened on one. No SQL, no streamlit."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard import tables, text
from dashboard.maps import Record, rows_of
from dashboard.trip_path import HARSH_SIGNS

PHASES = {"open": "under way", "provisional": "over, silent since", "final": "over"}


def trips(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp, vehicle: bool = True) -> pd.DataFrame:
    """Trips as listed; ``vehicle`` False leaves out whose they are."""
    moment = now.to_pydatetime()
    harsh = frame["harsh_brake"] + frame["harsh_accelerate"] + frame["harsh_corner"]
    columns = {
        "Began": [text.clock(v, zone, moment) for v in frame["started_at"]],
        "Vehicle": frame["vehicle_id"],
        "Model": frame["model"].fillna(text.NONE),
        "State": frame["phase"].map(PHASES),
        "Took": frame["duration_s"].map(text.duration),
        "km": frame["distance_m"].astype(float) / 1000,
        "Mean km/h": frame["speed_mean_kmh"].astype(float),
        "Top km/h": frame["speed_max_kmh"].astype(float),
        "Idle": frame["idle_s"].map(text.duration),
        "Halts": frame["halts"],
        "Harsh": harsh,
        "l/100 km": frame["fuel_l_per_100km"].astype(float),
        "kWh/100 km": frame["energy_kwh_per_100km"].astype(float),
    }
    hidden = set() if vehicle else {"Vehicle", "Model"}
    return pd.DataFrame({k: v for k, v in columns.items() if k not in hidden})


def events(
    harsh: pd.DataFrame, idle: pd.DataFrame, stops: pd.DataFrame, alerts: pd.DataFrame, zone: ZoneInfo
) -> pd.DataFrame:
    """What happened on a trip in order of time, with its stops before and after."""
    rows: list[tuple[Any, str, str, float | None]] = [
        (
            r["began_at"],
            f"{HARSH_SIGNS[r['kind']]} harsh {r['kind']}",
            _strength(r),
            float(r["duration_ms"]) / 1000,
        )
        for r in rows_of(harsh)
    ]
    rows += [(r["began_at"], "‖ idling", _burnt(r), r["duration_s"]) for r in rows_of(idle)]
    rows += [(r["began_at"], "■ stop", "between two trips", r["dwell_s"]) for r in rows_of(stops)]
    for r in rows_of(alerts):
        what = f"{tables.severity(r['severity'])} alert"
        rows.append((r["opened_at"], what, r["message"] or r["rule"], None))
    rows.sort(key=lambda row: pd.Timestamp(row[0]))
    return pd.DataFrame(
        {
            "Began": [text.clock(row[0], zone) for row in rows],
            "What": [row[1] for row in rows],
            "Detail": [row[2] for row in rows],
            "Lasted": [text.duration(row[3]) for row in rows],
        }
    )


def _seconds(event: Record) -> float:
    return float(event["duration_ms"]) / 1000


def _strength(event: Record) -> str:
    limit = f"limit {event['limit_g']:.2f}, grade {event['grade']}"
    return f"{event['peak_g']:.2f} g ({limit}) at {event['speed_kmh']:.0f} km/h"


def _burnt(episode: Record) -> str:
    parts = [text.number(episode["fuel_l"], "l", 2), text.number(episode["energy_kwh"], "kWh", 2)]
    return ", ".join(part for part in parts if part != text.NONE) or text.NONE
