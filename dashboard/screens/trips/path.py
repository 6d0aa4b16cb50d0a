"""One trip: its pieces with cell and direction, where it stood, what the picture is given, its table. Pure.

Times are epoch milliseconds, places degrees, speeds km/h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

import h3
import pandas as pd

from dashboard.shared import text
from dashboard.shared.maps import DEGREE_M, Record, joined, placed, rows_of
from dashboard.shared.text import severity
from dashboard.shared.theme import SEVERITIES, STATES

CELL_RESOLUTION: Final = 9
"""H3 resolution of road cells (serving.road_cell)."""
LEAST_MOVE_M: Final = 10.0
"""Below it a direction between two places says nothing: the course is taken."""
STANDING_KMH: Final = 1.0
HARSH_COLOURS: Final = {1: "#d9ad00", 2: "#ee8a1d", 3: "#d9482b"}
HARSH_SIGNS: Final = {"brake": "▼", "accelerate": "▲", "corner": "↷"}
HARSH_WORDS: Final = {
    "brake": "harsh braking",
    "accelerate": "harsh acceleration",
    "corner": "harsh cornering",
}
PHASES: Final = {"open": "under way", "provisional": "over, silent since", "final": "over"}


@dataclass(frozen=True, slots=True)
class Piece:
    """The path of one window, from the place before where ``joined``, and what free flow is looked up by."""

    t_ms: int
    lat_deg: float
    lon_deg: float
    speed_kmh: float | None
    limit_kmh: float | None
    cell: str
    sector: int
    joined: bool


def pieces(points: pd.DataFrame) -> list[Piece]:
    """One piece a window with a place, in order of time."""
    rows = rows_of(placed(points))
    return [_piece(a, b) for a, b in zip([None, *rows[:-1]], rows, strict=True)]


def _piece(a: Record | None, b: Record) -> Piece:
    whole = a is not None and joined(a, b | {"step_s": _length_s(b)})
    start = a if a is not None and whole else b
    lat, lon = (start["lat_deg"] + b["lat_deg"]) / 2, (start["lon_deg"] + b["lon_deg"]) / 2
    return Piece(
        _ms(b["window_end"]),
        b["lat_deg"],
        b["lon_deg"],
        b["speed_mean_kmh"],
        b["speed_limit_kmh"],
        h3.latlng_to_cell(lat, lon, CELL_RESOLUTION),
        sector_of(bearing_deg(start, b)),
        whole,
    )


def _length_s(row: Record) -> float:
    return float((row["window_end"] - row["window_start"]).total_seconds())


def bearing_deg(a: Record, b: Record) -> float | None:
    """Direction from one place to the next, degrees from north; the course where it hardly moved."""
    north_m = (b["lat_deg"] - a["lat_deg"]) * DEGREE_M
    east_m = (b["lon_deg"] - a["lon_deg"]) * DEGREE_M * math.cos(math.radians(b["lat_deg"]))
    if math.hypot(north_m, east_m) < LEAST_MOVE_M:
        heading: float | None = b["heading_deg"]
        return heading
    return math.degrees(math.atan2(east_m, north_m)) % 360


def sector_of(heading_deg: float | None) -> int:
    """0 north, 1 east, 2 south, 3 west, as road cells have them; -1 where there is no heading."""
    return -1 if heading_deg is None else int((heading_deg + 45) // 90 % 4)


def halts(points: pd.DataFrame) -> list[Record]:
    """Where it stood on its path: whole windows without movement, those in a row as one; ``duration_s``."""
    found: list[Record] = []
    last_end: object = None
    for row in rows_of(placed(points)):
        if row["speed_max_kmh"] is None or row["speed_max_kmh"] >= STANDING_KMH:
            continue
        if found and last_end == row["window_start"]:
            found[-1]["duration_s"] += _length_s(row)
        else:
            place = {"lat_deg": row["lat_deg"], "lon_deg": row["lon_deg"]}
            found.append({"began_at": row["window_start"], "duration_s": _length_s(row)} | place)
        last_end = row["window_end"]
    return found


def path(found: Sequence[Piece], ratios: pd.DataFrame) -> Record:
    """The columns that the trip's map and chart draw; ``ratios`` in the order of the pieces."""
    judged = rows_of(ratios) if len(ratios) == len(found) else [{}] * len(found)
    return {
        "t": [p.t_ms for p in found],
        "lat": [round(p.lat_deg, 6) for p in found],
        "lon": [round(p.lon_deg, 6) for p in found],
        "speed": [_rounded(p.speed_kmh) for p in found],
        "limit": [_rounded(p.limit_kmh) for p in found],
        "free": [_rounded(row.get("free_flow_kmh")) for row in judged],
        "band": [row.get("congestion") or "unknown" for row in judged],
        "joined": [p.joined for p in found],
    }


def marks(
    standing: Sequence[Record], idle: pd.DataFrame, harsh: pd.DataFrame, alerts: pd.DataFrame
) -> list[Record]:
    """What happened on the trip, in order of time: a sign, a colour and words each."""
    stood = [(r, "■", STATES["parked"], f"stood {text.duration(r['duration_s'])}") for r in standing]
    idled = [(r, "‖", STATES["idling"], f"idled {text.duration(r['duration_s'])}") for r in rows_of(idle)]
    jerked = [
        (
            r,
            HARSH_SIGNS[r["kind"]],
            HARSH_COLOURS.get(r["grade"], HARSH_COLOURS[3]),
            f"{HARSH_WORDS[r['kind']]}, grade {r['grade']}: {r['peak_g']:.2f} g at {r['speed_kmh']:.0f} km/h",
        )
        for r in rows_of(harsh)
    ]
    alerted = [
        (r, "!", SEVERITIES[r["severity"]], f"{r['severity']}: {r['message'] or r['rule']}")
        for r in rows_of(alerts.rename(columns={"opened_at": "began_at"}))
    ]
    found = [
        {
            "t": _ms(row["began_at"]),
            "lat": row["lat_deg"],
            "lon": row["lon_deg"],
            "sign": sign,
            "colour": colour,
            "words": words,
        }
        for row, sign, colour, words in [*stood, *idled, *jerked, *alerted]
    ]
    return sorted(found, key=lambda mark: mark["t"])


def _ms(at: Any) -> int:
    return round(pd.Timestamp(at).timestamp() * 1000)


def _rounded(value: float | None) -> float | None:
    return None if text.missing(value) or value is None else round(float(value), 1)


def trips(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Trips as listed."""
    return pd.DataFrame(
        {
            "Began": text.clocks(frame["started_at"], zone, now),
            "Vehicle": frame["vehicle_id"],
            "Model": frame["model"].fillna(text.NONE),
            "State": frame["phase"].map(PHASES),
            "Took": frame["duration_s"].map(text.duration),
            "km": frame["distance_m"].astype(float) / 1000,
            "Mean km/h": frame["speed_mean_kmh"].astype(float),
            "Top km/h": frame["speed_max_kmh"].astype(float),
            "Idle": frame["idle_s"].map(text.duration),
            "Halts": frame["halts"],
            "Harsh": frame["harsh_brake"] + frame["harsh_accelerate"] + frame["harsh_corner"],
            "l/100 km": frame["fuel_l_per_100km"].astype(float),
            "kWh/100 km": frame["energy_kwh_per_100km"].astype(float),
        }
    )


def events(
    harsh: pd.DataFrame, idle: pd.DataFrame, stops: pd.DataFrame, alerts: pd.DataFrame, zone: ZoneInfo
) -> pd.DataFrame:
    """What happened on a trip in order of time, with its stops before and after."""
    rows: list[tuple[Any, str, str, float | None]] = []
    for r in rows_of(harsh):
        limit = f"limit {r['limit_g']:.2f}, grade {r['grade']}"
        strength = f"{r['peak_g']:.2f} g ({limit}) at {r['speed_kmh']:.0f} km/h"
        what = f"{HARSH_SIGNS[r['kind']]} harsh {r['kind']}"
        rows.append((r["began_at"], what, strength, float(r["duration_ms"]) / 1000))
    for r in rows_of(idle):
        burnt = [text.number(r["fuel_l"], "l", 2), text.number(r["energy_kwh"], "kWh", 2)]
        words = ", ".join(part for part in burnt if part != text.NONE) or text.NONE
        rows.append((r["began_at"], "‖ idling", words, r["duration_s"]))
    rows += [(r["began_at"], "■ stop", "between two trips", r["dwell_s"]) for r in rows_of(stops)]
    for r in rows_of(alerts):
        rows.append((r["opened_at"], f"{severity(r['severity'])} alert", r["message"] or r["rule"], None))
    rows.sort(key=lambda row: pd.Timestamp(row[0]))
    return pd.DataFrame(
        {
            "Began": text.clocks([row[0] for row in rows], zone),
            "What": [row[1] for row in rows],
            "Detail": [row[2] for row in rows],
            "Lasted": [text.duration(row[3]) for row in rows],
        }
    )
