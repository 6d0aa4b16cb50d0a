"""One trip: its pieces with cell and direction, where it stood, what the picture is given, its table. Pure.

Times are epoch milliseconds, places degrees, speeds km/h.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import h3
import pandas as pd

from dashboard.shared import text, tracks
from dashboard.shared.maps import CELL_RESOLUTION, joined, offset_m, placed, sector_of
from dashboard.shared.text import ONE, WHOLE, Columns, Record, clock, duration, known, rows_of
from dashboard.shared.theme import SEVERITIES, STATES

LEAST_MOVE_M: Final = 10.0  # below it a direction between two places says nothing: the course is taken
STANDING_KMH: Final = 1.0
HARSH_COLOURS: Final = {1: "#d9ad00", 2: "#ee8a1d", 3: "#d9482b"}
HARSH: Final = {
    "brake": ("▼", "harsh braking"),
    "accelerate": ("▲", "harsh acceleration"),
    "corner": ("↷", "harsh cornering"),
}


PIECE: Final = ["t_ms", "lat_deg", "lon_deg", "speed_kmh", "limit_kmh", "cell", "sector", "joined"]
"""The path of one window, from the place before where ``joined``, and what free flow is looked up by."""


def pieces(points: pd.DataFrame) -> pd.DataFrame:
    """A row of PIECE a window with a place, in order of time."""
    rows = rows_of(placed(points))
    found = []
    for a, b in zip([None, *rows], rows, strict=False):
        whole = a is not None and joined(a, b)
        start = a if a is not None and whole else b
        lat, lon = (start["lat_deg"] + b["lat_deg"]) / 2, (start["lon_deg"] + b["lon_deg"]) / 2
        east_m, north_m = offset_m(start, b)
        moved = math.hypot(east_m, north_m) >= LEAST_MOVE_M
        sector = sector_of(math.degrees(math.atan2(east_m, north_m)) if moved else b["heading_deg"])
        end = (_ms(b["window_end"]), b["lat_deg"], b["lon_deg"], b["speed_mean_kmh"], b["speed_limit_kmh"])
        found.append((*end, h3.latlng_to_cell(lat, lon, CELL_RESOLUTION), sector, whole))
    return pd.DataFrame(found, columns=PIECE)


def halts(points: pd.DataFrame) -> list[Record]:
    """Where it stood on its path: whole windows without movement, those in a row as one; ``duration_s``."""
    found: list[Record] = []
    until: pd.Timestamp | None = None
    for row in rows_of(placed(points)):
        if row["speed_max_kmh"] is None or row["speed_max_kmh"] >= STANDING_KMH:
            continue
        if until == row["window_start"]:
            found[-1]["duration_s"] += row["step_s"]
        else:
            place = {"lat_deg": row["lat_deg"], "lon_deg": row["lon_deg"]}
            found.append({"began_at": row["window_start"], "duration_s": row["step_s"]} | place)
        until = row["window_start"] + pd.Timedelta(seconds=row["step_s"])
    return found


def path(found: pd.DataFrame, ratios: pd.DataFrame) -> Record:
    """The columns that the trip's map and chart draw; ``ratios`` in the order of the pieces."""
    judged = rows_of(ratios) if len(ratios) == len(found) else [{}] * len(found)
    return {
        "t": found["t_ms"].tolist(),
        "lat": [round(lat, 6) for lat in found["lat_deg"]],
        "lon": [round(lon, 6) for lon in found["lon_deg"]],
        "speed": [_rounded(speed) for speed in found["speed_kmh"]],
        "limit": [_rounded(limit) for limit in found["limit_kmh"]],
        "free": [_rounded(row.get("free_flow_kmh")) for row in judged],
        "band": [row.get("congestion") or "unknown" for row in judged],
        "joined": found["joined"].tolist(),
    }


def track(trip: Record, points: pd.DataFrame) -> pd.DataFrame:
    """The way as points, a row of shared/tracks.py each; where a piece joins none, a segment begins."""
    found = pieces(points)
    more = {name: trip[name] for name in ("trip_id", "vehicle_id")}
    more |= {"time": pd.to_datetime(found["t_ms"], unit="ms", utc=True)}
    return found.assign(segment=(found["joined"] == False).cumsum(), **more)[tracks.TRACK]  # noqa: E712


def happenings(idle: pd.DataFrame, harsh: pd.DataFrame, alerts: pd.DataFrame) -> list[Record]:
    """Idling, harsh events and alerts, each with ``sign``, ``colour``, ``what``, ``detail``, ``lasted_s``."""
    found = []
    for r in rows_of(idle):
        burnt = [text.number(r["fuel_l"], "l", 2), text.number(r["energy_kwh"], "kWh", 2)]
        detail = ", ".join(part for part in burnt if part != text.NONE) or None
        look = {"sign": "‖", "colour": STATES["idling"], "what": "idling"}
        found.append(r | look | {"detail": detail, "lasted_s": r["duration_s"]})
    for r in rows_of(harsh):
        limit = f"limit {r['limit_g']:.2f}, grade {r['grade']}"
        detail = f"{r['peak_g']:.2f} g ({limit}) at {r['speed_kmh']:.0f} km/h"
        look = dict(zip(("sign", "what"), HARSH[r["kind"]], strict=True))
        look |= {"colour": HARSH_COLOURS.get(r["grade"], HARSH_COLOURS[3])}
        found.append(r | look | {"detail": detail, "lasted_s": float(r["duration_ms"]) / 1000})
    for r in rows_of(alerts.rename(columns={"opened_at": "began_at"})):
        look = {"sign": "!", "colour": SEVERITIES[r["severity"]], "what": f"{r['severity']} alert"}
        found.append(r | look | {"detail": r["message"] or r["rule"], "lasted_s": None})
    return found


def marks(standing: Sequence[Record], happened: Sequence[Record]) -> list[Record]:
    """What happened on the trip, in order of time: a sign, a colour and words each."""
    stood = {"sign": "■", "colour": STATES["parked"], "what": "stood", "detail": None}
    found = []
    for row in [*(r | stood | {"lasted_s": r["duration_s"]} for r in standing), *happened]:
        lasted = None if row["lasted_s"] is None else duration(row["lasted_s"])
        place = {"t": _ms(row["began_at"]), "lat": row["lat_deg"], "lon": row["lon_deg"]}
        look = {"sign": row["sign"], "colour": row["colour"]}
        found.append(place | look | {"words": text.joined(row["what"], row["detail"], lasted)})
    return sorted(found, key=lambda mark: mark["t"])


def _ms(at: Any) -> int:
    return round(pd.Timestamp(at).timestamp() * 1000)


def _rounded(value: float | None) -> float | None:
    return None if value is None or text.missing(value) else round(float(value), 1)


def harsh_events(trip: Record) -> int:
    """Of all kinds."""
    return int(trip["harsh_brake"] + trip["harsh_accelerate"] + trip["harsh_corner"])


TRIPS: Final[Columns] = {  # trips as listed
    "Began": ("started_at", clock),
    "Vehicle": "vehicle_id",
    "Model": ("model", known),
    "State": ("phase", {"open": "under way", "provisional": "over, silent since", "final": "over"}.get),
    "Took": ("duration_s", duration),
    "km": ("distance_m", text.divided(1000), ONE),
    "Mean km/h": ("speed_mean_kmh", float, WHOLE),
    "Top km/h": ("speed_max_kmh", float, WHOLE),
    "Idle": ("idle_s", duration),
    "Halts": "halts",
    "Harsh": harsh_events,
    "l/100 km": ("fuel_l_per_100km", float, ONE),
    "kWh/100 km": ("energy_kwh_per_100km", float, ONE),
}

EVENTS: Final[Columns] = {
    "Began": ("began_at", text.moment),
    "What": lambda row: f"{row['sign']} {row['what']}",
    "Detail": ("detail", known),
    "Lasted": ("lasted_s", duration),
}


def events(happened: Sequence[Record], stops: pd.DataFrame) -> pd.DataFrame:
    """What happened on a trip in order of time, with its stops before and after: the rows of EVENTS."""
    stood = {"sign": "■", "what": "stop", "detail": "between two trips"}
    rows = [*happened, *(r | stood | {"lasted_s": r["dwell_s"]} for r in rows_of(stops))]
    found = pd.DataFrame(rows, columns=["began_at", "sign", "what", "detail", "lasted_s"])
    return found.sort_values("began_at", kind="stable", ignore_index=True)
