"""Journeys: trips of yesterday between quarters of the town, a trip of the rover, arrivals, runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import h3
from psycopg.types.json import Jsonb

from tests.rows.fleet import rover_windows
from tests.rows.town import CENTRE, ROVER, ROVER_START, Row, vehicle_id

ROVER_TRIP = "0123456789abcdef"
ROVER_END = ROVER_START + timedelta(minutes=30)
QUARTERS = {"A": (0.0, 0.0), "B": (0.06, 0.0), "C": (0.0, 0.09), "D": (-0.06, -0.06)}
"""North and east of the centre, degrees: each in a hexagon of 5.2 km2 of its own."""
FLOWS = (("A", "B", 12), ("B", "A", 10), ("A", "C", 8), ("C", "A", 6), ("A", "D", 3), ("B", "C", 5))
"""Origin, destination, vehicles that drove once."""


def yesterday(now: datetime) -> datetime:
    """Midnight UTC of the day before."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)


def trips(now: datetime) -> list[Row]:
    return [*_of_flows(now), rover_trip()]


def _of_flows(now: datetime) -> list[Row]:
    found = []
    for flow, (origin, destination, count) in enumerate(FLOWS):
        for n in range(count):
            start = yesterday(now) + timedelta(hours=6 + 2 * flow, minutes=5 * n)
            found.append(_trip(n, len(found), start, origin, destination))
    return found


def _trip(n: int, number: int, start: datetime, origin: str, destination: str) -> Row:
    (south, west), (north, east) = _place(origin), _place(destination)
    electric = n % 5 in (2, 4)
    return {
        "vehicle_id": vehicle_id(n),
        "started_at": start,
        "ended_at": start + timedelta(minutes=20),
        "trip_id": f"flow{number:012d}",
        "phase": "final",
        "start_lat_deg": south,
        "start_lon_deg": west,
        "end_lat_deg": north,
        "end_lon_deg": east,
        "start_h3_r7": h3.latlng_to_cell(south, west, 7),
        "end_h3_r7": h3.latlng_to_cell(north, east, 7),
        "distance_m": 8000.0,
        "unseen_m": 0.0,
        "odometer_m": 8010.0,
        "duration_s": 1200.0,
        "moving_s": 1000.0,
        "standing_s": 200.0,
        "idle_s": 150.0,
        "halts": 4,
        "speed_mean_kmh": 24.0,
        "speed_moving_kmh": 28.8,
        "speed_max_kmh": 58.0,
        "speeding_s": 12.0,
        "fuel_l": None if electric else 0.6,
        "fuel_l_per_100km": None if electric else 7.5,
        "energy_kwh": 1.2 if electric else None,
        "energy_kwh_per_100km": 15.0 if electric else None,
        "co2_g": 0.0 if electric else 1400.0,
        "harsh_brake": 1 if n == 0 else 0,
        "harsh_accelerate": 0,
        "harsh_corner": 0,
        "frames": 1200,
        "batch_id": 1,
    }


def _place(quarter: str) -> tuple[float, float]:
    north, east = QUARTERS[quarter]
    return CENTRE[0] + north, CENTRE[1] + east


def rover_trip() -> Row:
    """The rover's half hour: 11.98 km with a harsh braking and a sharp corner."""
    first, last = rover_windows()[0], rover_windows()[-1]
    places = {"start_lat_deg": first["lat_deg"], "start_lon_deg": first["lon_deg"]}
    places |= {"end_lat_deg": last["lat_deg"], "end_lon_deg": last["lon_deg"]}
    cells = {
        f"{end}_h3_r7": h3.latlng_to_cell(places[f"{end}_lat_deg"], places[f"{end}_lon_deg"], 7)
        for end in ("start", "end")
    }
    changed = {"vehicle_id": ROVER, "started_at": ROVER_START, "ended_at": ROVER_END, "trip_id": ROVER_TRIP}
    numbers = {
        "distance_m": 11_980.0,
        "duration_s": 1800.0,
        "moving_s": 1740.0,
        "standing_s": 60.0,
        "idle_s": 60.0,
    }
    numbers |= {
        "speed_mean_kmh": 24.0,
        "speed_max_kmh": 43.0,
        "harsh_brake": 1,
        "harsh_corner": 1,
        "halts": 1,
    }
    numbers |= {"energy_kwh": 0.9, "energy_kwh_per_100km": 7.5}
    return _trip(2, 0, ROVER_START, "A", "A") | changed | places | cells | numbers


def stops() -> list[Row]:
    """Where the rover stood before its trip, and where it has stood since."""
    kept = {"vehicle_id": ROVER, "lat_deg": 33.985, "lon_deg": -6.865, "h3_r7": None, "batch_id": 1}
    before = {"began_at": ROVER_START - timedelta(minutes=20), "ended_at": ROVER_START}
    return [kept | before, kept | {"began_at": ROVER_END, "ended_at": None}]


def harsh_events() -> list[Row]:
    return [_harsh(40, "brake", 2, 0.47), _harsh(90, "corner", 1, 0.36)]


def _harsh(window: int, kind: str, grade: int, peak_g: float) -> Row:
    at = rover_windows()[window]
    return {
        "vehicle_id": ROVER,
        "began_at": at["window_start"] + timedelta(seconds=4),
        "kind": kind,
        "ended_at": at["window_start"] + timedelta(seconds=5),
        "grade": grade,
        "peak_g": peak_g,
        "limit_g": 0.3,
        "speed_kmh": 38.0,
        "lat_deg": at["lat_deg"],
        "lon_deg": at["lon_deg"],
        "batch_id": 1,
    }


def idle_episodes() -> list[Row]:
    at = rover_windows()[120]
    return [
        {
            "vehicle_id": ROVER,
            "began_at": at["window_start"],
            "ended_at": at["window_start"] + timedelta(seconds=130),
            "phase": "final",
            "duration_s": 130.0,
            "fuel_l": None,
            "energy_kwh": 0.02,
            "lat_deg": at["lat_deg"],
            "lon_deg": at["lon_deg"],
            "batch_id": 1,
        }
    ]


def rover_baselines(now: datetime) -> list[Row]:
    """Free flow of 40 km/h in all directions of the cells of the rover's first 20 minutes."""
    cells = {h3.latlng_to_cell(w["lat_deg"], w["lon_deg"], 9) for w in rover_windows()[:120]}
    return [
        {"cell": cell, "heading_sector": s, "free_flow_kmh": 40.0, "windows": 99, "updated_at": now}
        for cell in sorted(cells)
        for s in range(4)
    ]


def intervals(now: datetime, cells: list[Row]) -> list[Row]:
    """Five minutes of each street cell of ``cells`` at each hour of yesterday: slow at 8 and at 17."""
    return [
        {
            "cell": row["cell"],
            "heading_sector": row["heading_sector"],
            "interval_start": yesterday(now) + timedelta(hours=hour),
            "vehicles": row["vehicles"],
            "distance_m": 10.0 * (14 if hour in (8, 17) else 35) * 10,
            "time_s": 360.0,
        }
        for hour in range(5, 22)
        for row in cells
    ]


def windows_of_yesterday(now: datetime, cells: list[Row]) -> list[Row]:
    """The traffic of ``cells`` again, yesterday at 8:00."""
    return [row | {"window_start": yesterday(now) + timedelta(hours=8)} for row in cells]


def eta_requests(now: datetime) -> list[Row]:
    """Four that arrived, one still on its way."""
    arrived = yesterday(now) + timedelta(hours=9)
    kept = {"lat_deg": CENTRE[0], "lon_deg": CENTRE[1], "asked_at": arrived - timedelta(minutes=15)}
    return [
        kept
        | {
            "vehicle_id": vehicle_id(n),
            "outcome": "arrived" if n < 4 else None,
            "arrived_at": arrived if n < 4 else None,
        }
        for n in range(5)
    ]


def eta_predictions(now: datetime) -> list[Row]:
    """Of each that arrived one 1, 4, 8 and 15 min before: too late by 30 s, or too early by 15 s."""
    arrived = yesterday(now) + timedelta(hours=9)
    return [
        {
            "request_no": n + 1,
            "made_at": arrived - timedelta(minutes=before),
            "arrival_at": arrived + timedelta(seconds=30 if n % 2 else -15),
            "distance_m": 500.0 * before,
        }
        for n in range(4)
        for before in (1, 4, 8, 15)
    ] + [
        {
            "request_no": 5,
            "made_at": now - timedelta(minutes=1),
            "arrival_at": now + timedelta(minutes=6),
            "distance_m": 2500.0,
        }
    ]


def verdicts(now: datetime) -> list[Row]:
    """A run that is equal to live, and one with windows of 20 s."""
    begin = yesterday(now)
    kept = {
        "compared_at": now,
        "since": begin,
        "until": begin + timedelta(days=1),
        "vehicles": None,
        "slices": 24,
    }
    equal = {"slices_differing": 0, "rows_differing": 0, "by_column": Jsonb({}), "first_difference": None}
    other = {
        "slices_differing": 24,
        "rows_differing": 360,
        "by_column": Jsonb({"window_s": 180, "(row missing)": 180}),
        "first_difference": "vehicle_window (vehicle_id=TESTFLEET00000000): window_s is live 10, run 20",
    }
    rows = [("r1", "vehicle_window", 0, 360, 360, equal), ("r1", "trip", 1, 44, 44, equal)]
    rows += [("r2", "vehicle_window", 0, 360, 180, other), ("r2", "trip", 1, 44, 44, equal)]
    return [
        kept
        | {"run_id": run, "table_name": table, "place": place, "live_rows": live, "run_rows": there}
        | {"changed": "JOBS_WINDOW_S=20" if run == "r2" else "nothing"}
        | found
        for run, table, place, live, there, found in rows
    ]
