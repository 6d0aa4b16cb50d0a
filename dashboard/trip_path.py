"""The way of one trip: its pieces with cell and direction, where it stood, what the map is given. Pure.

Times are epoch milliseconds, places degrees, speeds km/h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import h3
import pandas as pd

from dashboard import text
from dashboard.maps import Record, rows_of
from dashboard.palette import SEVERITIES
from dashboard.trace import joined

CELL_RESOLUTION: Final = 9
"""H3 resolution of road cells (serving.road_cell)."""
LEAST_MOVE_M: Final = 10.0
"""Below it a direction between two places says nothing: the course is taken."""
STANDING_KMH: Final = 1.0
HARSH_COLOURS: Final = {1: "#d9ad00", 2: "#ee8a1d", 3: "#d9482b"}
HALT_COLOUR: Final = "#6b7a8c"
IDLE_COLOUR: Final = "#e69f00"
HARSH_SIGNS: Final = {"brake": "▼", "accelerate": "▲", "corner": "↷"}
HARSH_WORDS: Final = {
    "brake": "harsh braking",
    "accelerate": "harsh acceleration",
    "corner": "harsh cornering",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """The way of one window: from the place before to its own, and what free flow is looked up by.

    ``joined``: the two places belong together (no silence, no jump between them).
    """

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
    rows = rows_of(points.dropna(subset=["lat_deg", "lon_deg"]))
    before = [None, *rows[:-1]]
    return [_piece(a, b) for a, b in zip(before, rows, strict=True)]


def _piece(a: Record | None, b: Record) -> Piece:
    whole = a is not None and joined(a | {"step_s": _length_s(a)}, b | {"step_s": _length_s(b)})
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
    north_m = (b["lat_deg"] - a["lat_deg"]) * 111_195
    east_m = (b["lon_deg"] - a["lon_deg"]) * 111_195 * math.cos(math.radians(b["lat_deg"]))
    if math.hypot(north_m, east_m) < LEAST_MOVE_M:
        heading: float | None = b["heading_deg"]
        return heading
    return math.degrees(math.atan2(east_m, north_m)) % 360


def sector_of(heading_deg: float | None) -> int:
    """0 north, 1 east, 2 south, 3 west, as road cells have them; -1 where there is no heading."""
    return -1 if heading_deg is None else int((heading_deg + 45) // 90 % 4)


def halts(points: pd.DataFrame) -> list[Record]:
    """Where it stood on the way: whole windows without movement, those in a row as one; ``duration_s``."""
    found: list[Record] = []
    last_end: object = None
    for row in rows_of(points.dropna(subset=["lat_deg", "lon_deg"])):
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
    """What happened on the way, in order of time: a sign, a colour and words each."""
    found = [_mark(r, "■", HALT_COLOUR, f"stood {text.duration(r['duration_s'])}") for r in standing]
    found += [_mark(r, "‖", IDLE_COLOUR, f"idled {text.duration(r['duration_s'])}") for r in rows_of(idle)]
    found += [_harsh(row) for row in rows_of(harsh)]
    for row in rows_of(alerts):
        words = f"{row['severity']}: {row['message'] or row['rule']}"
        found.append(_mark(row | {"began_at": row["opened_at"]}, "!", SEVERITIES[row["severity"]], words))
    return sorted(found, key=lambda mark: mark["t"])


def _harsh(row: Record) -> Record:
    strength = f"{row['peak_g']:.2f} g at {row['speed_kmh']:.0f} km/h"
    words = f"{HARSH_WORDS[row['kind']]}, grade {row['grade']}: {strength}"
    return _mark(row, HARSH_SIGNS[row["kind"]], HARSH_COLOURS.get(row["grade"], HARSH_COLOURS[3]), words)


def _mark(row: Record, sign: str, colour: str, words: str) -> Record:
    return {
        "t": _ms(row["began_at"]),
        "lat": row["lat_deg"],
        "lon": row["lon_deg"],
        "sign": sign,
        "colour": colour,
        "words": words,
    }


def _ms(at: Any) -> int:
    return round(pd.Timestamp(at).timestamp() * 1000)


def _rounded(value: float | None) -> float | None:
    return None if text.missing(value) or value is None else round(float(value), 1)
